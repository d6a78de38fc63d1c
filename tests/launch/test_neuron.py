"""Trainway's training job is refused on Trainium, which it cannot use. Programs of the Neuron SDK get the devices."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from tests.command_line import run_trainway
from tests.launch.conftest import load_job, write_job
from tests.launch.foreign import write_foreign_job
from tests.launch.kubernetes.every_kind import PROGRAM, documents_of, templates_of
from tests.launch.sagemaker.requests import on_sagemaker
from tests.launch.slurm.machines import CONTROLLER, machines, missing
from tests.launch.slurm.requests import CATALOGUE, IMAGE, on_slurm
from tests.people import with_people
from trainway.launch.job_file.programs import load_program
from trainway.launch.kubernetes import Kind
from trainway.launch.program.allocation import allocate
from trainway.launch.program.request import Request
from trainway.launch.sagemaker import SageMakerOptions, render_request
from trainway.launch.slurm import render_script
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff, Nodes

BATCH = {"global": 64, "micro": 1}
# Accelerators, EFA devices, and processes of a node, as tests/test_plan.py has them from AWS's pages.
NODES = {"trn1.32xlarge": (16, 8, 32), "trn2.48xlarge": (16, 16, 64)}
# HyperPod has no DRA drivers.
EFA_BY_DRA = {"kubernetes": {"efa_devices": "dra"}}
OF_KUBERNETES: list[tuple[Kind, dict[str, Any]]] = [
    *((kind, {}) for kind in get_args(Kind)),
    *((kind, EFA_BY_DRA) for kind in get_args(Kind) if kind != "HyperPodPyTorchJob"),
]
OFFERED = "types-are-offered-in-the-zone"
of_neuron = pytest.mark.parametrize("instance_type", NODES)


def groups(*types: str) -> tuple[Nodes, ...]:
    return tuple(Nodes(name=each.partition(".")[0], instance_type=each, count=4, max_count=4) for each in types)


def of(hand_off: HandOff, *types: str) -> HandOff:
    return hand_off.model_copy(update={"node_groups": groups(*types)})


def program_on(hand_off: HandOff, directory: Path) -> Request:
    program = load_program(write_foreign_job(directory))
    return Request(program, "first", hand_off, IMAGE, allocate(program, hand_off, CATALOGUE))


@pytest.mark.parametrize(
    ("types", "group"),
    [(("trn2.48xlarge",), None), (("m7i.8xlarge", "trn1.2xlarge"), None), (("p5.48xlarge", "trn2.48xlarge"), "trn2")],
)
def test_the_training_job_is_refused_on_trainium_before_anything_is_submitted(
    types: tuple[str, ...], group: str | None, hand_off: HandOff, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        allocate(load_job(tmp_path, batch=BATCH), of(hand_off, *types), CATALOGUE, group)
    said = str(caught.value)
    assert f"small cannot train on the node group {types[-1].partition('.')[0]}\n    why: {types[-1]} has " in said
    assert "which PyTorch reaches only by the Neuron SDK, and the training job uses CUDA\n    fix: use a node" in said
    assert "a section `run` in the place of `model`" in said and "`device: cpu`" in said


@pytest.mark.parametrize(
    ("types", "group", "keys", "chosen"),
    [
        (("trn2.48xlarge", "p5.48xlarge"), None, {}, "p5"),
        (("trn2.48xlarge", "m7i.8xlarge"), "m7i", {}, "m7i"),
        (("trn2.48xlarge",), None, {"device": "cpu"}, "trn2"),
    ],
)
def test_the_training_job_goes_where_it_can_train_or_where_the_cpu_is_meant(
    types: tuple[str, ...], group: str | None, keys: dict[str, str], chosen: str, hand_off: HandOff, tmp_path: Path
) -> None:
    program = load_job(tmp_path, batch=BATCH, **keys)
    assert allocate(program, of(hand_off, *types), CATALOGUE, group).group.name == chosen


@pytest.mark.parametrize("types", [("trn2.48xlarge",), ("trn2.48xlarge", "p5.48xlarge"), ("m7i.8xlarge",)])
@pytest.mark.parametrize("kind", ["training job", "training job on the CPU", "program"])
def test_check_finds_a_training_job_for_trainium_with_the_platform_file(
    kind: str, types: tuple[str, ...], tmp_path: Path
) -> None:
    platform = tmp_path / "platform.yaml"
    nodes = [{"name": each.partition(".")[0], "instance_type": each, "count": 1} for each in types]
    document: dict[str, Any] = {
        "name": "atlas",
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": "eks",
    }
    if "trn2.48xlarge" in types and "p5.48xlarge" not in types:
        document["image"] = {"base": f"public.ecr.aws/neuron/pytorch-training-neuronx:1@sha256:{'0' * 64}"}
    platform.write_text(yaml.safe_dump(with_people({**document, "node_groups": nodes})))
    if kind == "program":
        job = write_foreign_job(tmp_path)
    else:
        job = write_job(tmp_path, batch=BATCH, **({"device": "cpu"} if "CPU" in kind else {}))
    check = ("check", str(job), "--platform", str(platform), "--on", "2026-11-29", "--accept", OFFERED)
    done = run_trainway(*check, directory=tmp_path)
    refused = kind == "training job" and types == ("trn2.48xlarge",)
    assert done.returncode == (2 if refused else 0), done.stderr
    said = "the job cannot train on atlas: trn2.48xlarge has 16 Trainium2, which PyTorch reaches only by the Neuron SDK"
    assert (said in done.stderr) == refused
    assert (re.search(r"job\.yaml:\d+:\d+: model = ", done.stderr) is not None) == refused, done.stderr
    assert run_trainway(*check[:2], directory=tmp_path).returncode == 0, "nothing is known of the nodes"


@of_neuron
def test_slurm_is_asked_for_neuron_devices_and_for_a_process_of_each_core(
    instance_type: str, hand_off: HandOff, tmp_path: Path
) -> None:
    devices, _, processes = NODES[instance_type]
    script = render_script(program_on(on_slurm(hand_off, instance_type=instance_type), tmp_path), CATALOGUE)
    assert f"#SBATCH --gres=neuron:{devices}\n" in script and "#SBATCH --gpus" not in script
    assert f"export PET_NPROC_PER_NODE={processes}\n" in script
    assert f"export TRAINWAY_GPUS_PER_NODE={processes}\n" in script
    # The files of the starter are in the script, too.
    asked = [line for line in script.splitlines() if line.startswith(("#SBATCH ", "export "))]
    assert not re.search("nvidia|gpus-per-node|LD_LIBRARY_PATH", "\n".join(asked))


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_slurm_takes_the_request_and_leaves_out_nodes_that_lost_a_device(hand_off: HandOff, tmp_path: Path) -> None:
    for devices, status in ((16, 0), (15, 1)):
        with machines(["n1"], gpus=devices, gres="neuron") as cluster:
            there = on_slurm(hand_off, instance_type="trn2.48xlarge", mount=str(cluster.shared))
            script = cluster.shared / "script"
            script.write_text(render_script(program_on(there, tmp_path), CATALOGUE))
            ask = cluster.on(CONTROLLER, "sbatch", "--test-only", str(script))
            done = subprocess.run(ask, cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == status, done.stderr
        assert status == 0 or "Requested node configuration is not available" in done.stderr


@of_neuron
@pytest.mark.parametrize(("kind", "sections"), OF_KUBERNETES)
def test_pods_request_neuron_devices_and_nothing_of_nvidia_s(
    kind: Kind, sections: dict[str, Any], instance_type: str
) -> None:
    program = {"run": {"command": ["torchrun", "train.py"]}} if kind == "HyperPodPyTorchJob" else PROGRAM
    documents = documents_of(kind, instance_type, sections, **program)
    devices, interfaces, processes = NODES[instance_type]
    templates = templates_of(documents)
    assert templates
    for template in templates:
        (container,) = template["spec"]["containers"]
        limits = {name: int(value) for name, value in container["resources"]["limits"].items() if "/" in name}
        efa = {} if sections else {"vpc.amazonaws.com/efa": interfaces}
        assert limits == {"aws.amazon.com/neuron": devices, **efa}
        assert "aws.amazon.com/neuron" in [each["key"] for each in template["spec"]["tolerations"]]
    # The first document has the files of the starter.
    text = yaml.safe_dump_all(documents[1:])
    assert "nvidia" not in text.lower() and "num-gpus" not in text
    counts = set(re.findall(r"(?:numProcPerNode|nprocPerNode|slotsPerWorker): '?(\d+)", text))
    counts |= set(re.findall(r"name: (?:PET_NPROC_PER_NODE|TRAINWAY_GPUS_PER_NODE)\n\s*value: '(\d+)'", text))
    assert counts == {str(processes)}


@of_neuron
def test_sagemaker_starts_a_process_of_each_core(instance_type: str, hand_off: HandOff, tmp_path: Path) -> None:
    request = program_on(on_sagemaker(hand_off, instance_type=instance_type), tmp_path)
    job = render_request(request, CATALOGUE, SageMakerOptions(data="s3"))
    assert job["ResourceConfig"]["InstanceType"] == f"ml.{instance_type}"
    assert job["Environment"]["PET_NPROC_PER_NODE"] == str(NODES[instance_type][2])
    assert "nvidia" not in str(job).lower()
