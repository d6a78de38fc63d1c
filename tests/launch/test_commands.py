"""The commands as a person types them: an emulated SSM has the hand-off, the real kubectl speaks to an API server."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import boto3
import pytest
import yaml

from emulator import Emulator, running
from tests.command_line import Completed, run_trainway
from tests.launch.conftest import write_job
from tests.launch.kubernetes.platforms import hand_off_of
from tests.launch.kubernetes.stand_in_api import Api, serving
from tests.manifests.platforms import platform_of
from tests.people import ADMIN
from tests.verify.test_checks import nccl
from trainway.launch.kubernetes.context import eks_arn
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.spec.handoff import BuiltImage, TrainingJobs
from trainway.spec.handoff_names import image_parameter_name, parameter_name
from trainway.spec.platform import Platform

ROOT = Path(__file__).parents[2]
_GROUPS = [{"name": "train", "instance_type": "p5.48xlarge", "count": 2, "max_count": 4}]
_TEAM = {"name": "research", "guarantee": {"p5.48xlarge": 2}}
EKS = platform_of(
    name="eks",
    orchestrator="eks",
    node_groups=_GROUPS,
    teams=[_TEAM],
    kubernetes={"admins": [ADMIN]},
    iam={"training_jobs": True},
)
SLURM = platform_of(
    name="slurm", orchestrator="hyperpod-slurm", node_groups=_GROUPS, teams=[_TEAM | {"users": ["ada"]}]
)
COMMAND = "python3 -m training.elastic"
Trainway = Callable[..., Completed]


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as started:
        yield started


@pytest.fixture
def trainway(tmp_path: Path, emulator: Emulator, api: Api, monkeypatch: pytest.MonkeyPatch) -> Trainway:
    """Runs `trainway` in a directory of its own, on two platforms that were deployed."""
    environment = {
        **emulator.child_environment(),
        "KUBECONFIG": str(api.kubeconfig(tmp_path / "kubeconfig", eks_arn(hand_off_of(EKS)))),
        "KUBECACHEDIR": str(tmp_path / "cache"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "COLUMNS": "200",
    }
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    for platform in (EKS, SLURM):
        (tmp_path / f"{platform.name}.yaml").write_text(platform.model_dump_json(exclude_defaults=True))
        deploy(platform)

    return partial(run_trainway, directory=tmp_path, environment=environment)


def deploy(platform: Platform) -> None:
    training_jobs = TrainingJobs(
        role_arn="arn:aws:iam::111122223333:role/jobs", subnet_ids={"train": "subnet-0"}, security_group_ids=("sg-0",)
    )
    hand_off = hand_off_of(platform, training_jobs=training_jobs)
    pinned = f"{hand_off.image_uri.partition(':')[0]}@sha256:{64 * '0'}"
    s3 = boto3.client("s3", region_name=platform.region)
    if hand_off.bucket not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(
            Bucket=hand_off.bucket, CreateBucketConfiguration={"LocationConstraint": cast(Any, platform.region)}
        )
    ssm = boto3.client("ssm", region_name=platform.region)
    written = {
        parameter_name(platform.name): hand_off.model_dump_json(),
        image_parameter_name(platform.name): BuiltImage(uri=hand_off.image_uri, pinned=pinned).model_dump_json(),
    }
    for name, value in written.items():
        ssm.put_parameter(Name=name, Type="String", Value=value, Overwrite=True)


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    return write_job(tmp_path, nodes=2, batch={"global": 64, "micro": 1}, team="research")


def test_one_job_file_is_one_command_on_every_target(trainway: Trainway, job_file: Path, tmp_path: Path) -> None:
    (tmp_path / "mirrored").mkdir()
    mirrored = write_job(
        tmp_path / "mirrored",
        nodes=2,
        batch={"global": 64, "micro": 1},
        team="research",
        data={"train": "s3:/corpus/small"},
    )
    here = write_job(tmp_path, data={"train": "s3://corpus/small"}, checkpoint={"location": "s3://corpus/ckpt"})
    local = trainway("launch", str(here), "--dry-run")
    job_file = write_job(tmp_path, nodes=2, batch={"global": 64, "micro": 1}, team="research")
    on_kubernetes = trainway("launch", str(job_file), "--target=kubernetes", "--platform=eks.yaml", "--dry-run")
    under_slurm = trainway("launch", str(job_file), "--target=slurm", "--platform=slurm.yaml", "--dry-run")
    on_sagemaker = trainway(
        *("launch", str(mirrored), "--target=sagemaker", "--platform=eks.yaml", "--group=train", "--dry-run")
    )
    for said in (local, on_kubernetes, under_slurm, on_sagemaker):
        assert said.returncode == 0, said.stderr
    for said in (on_kubernetes, under_slurm):
        assert re.search(r"needs about [\d.]+ of \d+ GiB on each .*: .*gathered [\d.]+", said.stderr), said.stderr
    assert "price of small: 2 × p5.48xlarge on demand: $110.08 an hour, by the list price of" in on_kubernetes.stderr
    assert re.search(r"no price known for 2 × \S+ on demand, HyperPod in us-west-2", under_slurm.stderr)
    assert re.search(r"no price known for 2 × \S+ of a SageMaker training job in us-west-2", on_sagemaker.stderr)
    assert "an hour" not in local.stderr
    # The deployed platforms can be read, and nothing is taken from their files alone.
    assert not any("as its file describes it" in said.stderr for said in (on_kubernetes, under_slurm, on_sagemaker))
    [job] = [each for each in yaml.safe_load_all(on_kubernetes.stdout) if each["kind"] == "TrainJob"]
    assert " ".join(job["spec"]["trainer"]["command"]) == COMMAND
    assert f"command=({COMMAND})" in under_slurm.stdout.splitlines()
    assert local.stdout.strip().endswith(COMMAND)
    assert " ".join(json.loads(on_sagemaker.stdout)["AlgorithmSpecification"]["ContainerArguments"]).endswith(COMMAND)
    assert not (tmp_path / "runs").exists(), "nothing was launched"


def test_the_price_includes_spare_nodes(trainway: Trainway, job_file: Path, tmp_path: Path, api: Api) -> None:
    launch = ("launch", str(job_file), "--target=kubernetes", "--platform=eks.yaml", "--spare-nodes=1")
    shown = trainway(*launch, "--dry-run")
    assert "price of small: 3 × p5.48xlarge on demand: $165.12 an hour" in shown.stderr
    run = trainway(*launch).stdout.strip()
    assert json.loads((tmp_path / "runs" / run / "launch.json").read_text())["nodes"]["count"] == 3
    assert api.objects["trainjobs", run]["spec"]["trainer"]["numNodes"] == 3


def test_a_run_is_launched_seen_followed_and_stopped(trainway: Trainway, job_file: Path, api: Api) -> None:
    launched = trainway("launch", str(job_file), "--target=kubernetes", "--platform=eks.yaml", "--group=train")
    assert launched.returncode == 0, launched.stderr
    run = launched.stdout.strip()
    assert ("trainjobs", run) in api.objects and ("configmaps", run) in api.objects
    [row] = json.loads(trainway("status", "--json").stdout)
    assert (row["run"], row["target"], row["phase"]) == (run, "kubernetes", "starting")
    assert run in trainway("status", run).stdout
    logs = trainway("logs", run)
    assert logs.returncode == 2 and "fix:" in logs.stderr, "it has no pods yet"

    again = trainway("resume", run)
    assert again.returncode == 2 and "it is starting" in again.stderr and f"trainway stop {run}" in again.stderr
    assert trainway("stop", run).returncode == 0
    assert ("trainjobs", run) not in api.objects
    [row] = json.loads(trainway("status", "--json").stdout)
    assert row["phase"] == "gone"

    assert trainway("resume", run).stdout.strip() == run, "under its own name, so that it finds its checkpoints"
    assert ("trainjobs", run) in api.objects


@pytest.mark.exhaustive
def test_a_sweep_is_submitted_whole_or_not_at_all(trainway: Trainway, job_file: Path, api: Api, tmp_path: Path) -> None:
    launch = ("launch", str(job_file), "--target=kubernetes", "--platform=eks.yaml")
    refused = trainway(*launch, "--sweep=nodes=2,5")
    assert refused.returncode == 2 and "asks for 5 nodes" in refused.stderr
    assert not [name for kind, name in api.objects if kind == "trainjobs"]
    launched = trainway(*launch, "--sweep=seed=0,1", "--sweep=optimizer.learning_rate=1e-4,1e-3")
    assert launched.returncode == 0, launched.stderr
    runs = launched.stdout.split()
    assert len(runs) == 4 and sorted(name for kind, name in api.objects if kind == "trainjobs") == sorted(runs)
    rates = {yaml.safe_load((tmp_path / "runs" / run / "job.yaml").read_text())["seed"] for run in runs}
    assert rates == {0, 1}


@pytest.mark.exhaustive
def test_an_array_is_a_run_for_each_index(trainway: Trainway, tmp_path: Path) -> None:
    program = ("sh", "-c", 'echo "$TRAINWAY_ARRAY_INDEX" >"$TRAINWAY_OUTPUT/index"')
    launched = trainway("launch", "--array=3", "--processes=1", "--", *program)
    assert launched.returncode == 0, launched.stderr
    rows = json.loads(trainway("status", "--json").stdout)
    indices = [(tmp_path / "runs" / row["run"] / "outputs/index").read_text().strip() for row in rows]
    assert sorted(indices) == ["0", "1", "2"]
    assert trainway("resume", rows[0]["run"]).returncode == 0
    kept = (tmp_path / "runs" / rows[0]["run"] / "outputs/index").read_text().strip()
    assert kept == indices[0], "a run that is resumed keeps its index"
    assert trainway("forward", rows[0]["run"], "6006").stdout.strip() == "http://127.0.0.1:6006"
    refused = trainway("launch", str(write_job(tmp_path)), "--array=3")
    assert refused.returncode == 2 and "small cannot be an array" in refused.stderr


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--target=local",), "--interactive is not supported by the `local` target"),
        (("--target=sagemaker", "--platform=eks.yaml"), "only Slurm and Kubernetes give nodes to a shell"),
        (("--target=slurm", "--platform=slurm.yaml", "--array=2"), "leave --sweep and --array out"),
        (("--target=slurm", "--platform=slurm.yaml", "--", "true"), "name a job file or nothing"),
    ],
)
def test_a_shell_that_cannot_be_had_is_refused(flags: tuple[str, ...], why: str, trainway: Trainway) -> None:
    said = trainway("launch", "--interactive", *flags)
    assert said.returncode == 2 and why in said.stderr, said.stderr


def test_no_nodes_are_allocated_for_a_shell_that_may_not_be_opened(trainway: Trainway, api: Api) -> None:
    api.may_open_a_shell = False
    flags = ("--interactive", "--target=kubernetes", "--platform=eks.yaml", "--nodes=1", "--team=research")
    said = trainway("launch", *flags)
    assert said.returncode == 2 and "your role does not allow it" in said.stderr, said.stderr
    assert "was told to stop" in said.stderr
    assert not [name for kind, name in api.objects if kind == "trainjobs"]


def test_an_allocation_has_the_size_of_the_job_file(trainway: Trainway, tmp_path: Path, api: Api) -> None:
    job = write_job(tmp_path, nodes=2, batch={"global": 64, "micro": 1}, team="research", slurm={"borrow": True})
    said = trainway("launch", "--interactive", str(job), "--target=slurm", "--platform=slurm.yaml", "--dry-run")
    assert "#SBATCH --nodes=2" in said.stdout and "#SBATCH --qos=borrowed" in said.stdout, said.stderr
    assert "-- sleep 28800)" in said.stdout
    flags = ("--interactive", "--target=kubernetes", "--platform=eks.yaml", "--nodes=1", "--team=research")
    said = trainway("launch", *flags, "--dry-run")
    assert [each["kind"] for each in yaml.safe_load_all(said.stdout)] == ["ConfigMap", "TrainingRuntime", "TrainJob"]
    assert not api.objects


@pytest.mark.exhaustive
def test_an_option_of_the_job_file_holds_until_a_flag_says_otherwise(trainway: Trainway, tmp_path: Path) -> None:
    size = {"nodes": 2, "batch": {"global": 64, "micro": 1}, "team": "research"}
    job = write_job(tmp_path, **size, slurm={"borrow": True, "time_limit": 30}, kubernetes={"kind": "MPIJob"})
    launch = ("launch", str(job), "--target=slurm", "--platform=slurm.yaml", "--dry-run")

    def directives(*flags: str) -> list[str]:
        said = trainway(*launch, *flags)
        assert said.returncode == 0, said.stderr
        lines = (line.removeprefix("#SBATCH --") for line in said.stdout.splitlines())
        return [line for line in lines if line.startswith(("qos=", "time="))]

    assert directives() == ["qos=borrowed", "time=30"]
    assert directives("--time-limit=60", "--no-borrow") == ["time=60"]
    assert directives("--sweep=slurm.time_limit=10,20") == ["qos=borrowed", "time=10", "qos=borrowed", "time=20"]


@pytest.mark.parametrize(
    ("arguments", "changes", "why"),
    [
        (("--platform=absent.yaml",), {}, "absent.yaml"),
        (("--platform=elsewhere.yaml",), {}, "no platform of the name elsewhere is deployed there"),
        (("--platform=eks.yaml",), {"nodes": 5}, "train, has at most 4"),
        (("--platform=eks.yaml",), {"parallel": {"tp": 3}}, "tp is 3, which does not divide the 16 ranks"),
        (("--platform=eks.yaml",), {"team": "marketing"}, "eks has no such team"),
        (("--platform=eks.yaml", "--borrow"), {}, "`--borrow` is not supported by the `kubernetes` target"),
        (("--platform=slurm.yaml",), {}, "its orchestrator is hyperpod-slurm"),
        (("--platform=eks.yaml", "--code=nowhere"), {}, "there is no such directory"),
        (("--platform=eks.yaml", "--kind=HyperPodPyTorchJob"), {}, "is not HyperPod"),
    ],
)
def test_what_cannot_run_is_refused_in_a_sentence_and_nothing_is_submitted(
    arguments: tuple[str, ...], changes: dict[str, object], why: str, trainway: Trainway, api: Api, tmp_path: Path
) -> None:
    (tmp_path / "elsewhere.yaml").write_text((tmp_path / "eks.yaml").read_text().replace('"eks"', '"elsewhere"', 1))
    job_file = write_job(tmp_path, **{"nodes": 2, "batch": {"global": 64, "micro": 1}, "team": "research", **changes})
    said = trainway("launch", str(job_file), "--target=kubernetes", *arguments)
    assert said.returncode == 2
    assert re.sub(r"\s+", " ", why) in re.sub(r"\s+", " ", said.stderr)
    assert "Traceback" not in said.stderr and "fix:" in said.stderr
    assert not api.objects


@pytest.mark.exhaustive
def test_a_probe_is_rendered_for_the_platforms_own_target(trainway: Trainway) -> None:
    said = trainway("verify", "train", "--nodes=2", "--team=research", "--platform=eks.yaml", "--dry-run")
    assert said.returncode == 0, said.stderr
    [job] = [each for each in yaml.safe_load_all(said.stdout) if each["kind"] == "TrainJob"]
    assert job["spec"]["trainer"]["numNodes"] == 2
    under_slurm = trainway(
        "verify", "--team=research", "--platform=slurm.yaml", "--environment=/fsx/envs/ada", "--dry-run"
    )
    assert "source /fsx/envs/ada/bin/activate" in under_slurm.stdout, under_slurm.stderr


@pytest.mark.exhaustive
def test_a_run_that_took_tcp_is_found_out_in_its_first_minute(trainway: Trainway, job_file: Path, api: Api) -> None:
    run = trainway("launch", str(job_file), "--target=kubernetes", "--platform=eks.yaml").stdout.strip()
    for index, way in enumerate(("Libfabric/0/GDRDMA", "Socket/0")):
        name = f"{run}-node-0-{index}-x7k2p"
        api.logs[name] = nccl(f"{run}-node-0-{index}", way)
        labels = {RUN_LABEL: run, "batch.kubernetes.io/job-completion-index": str(index)}
        running = {"name": "node", "restartCount": 0, "state": {"running": {}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "research", "uid": name, "labels": labels},
            "spec": {"nodeName": f"ip-10-0-16-{index}", "containers": [{"name": "node"}]},
            "status": {"phase": "Running", "containerStatuses": [running]},
        }
        api.put("pods", pod)
    said = trainway("verify", "--run", run)
    assert said.returncode == 1, said.stderr
    failed, count = said.stdout.splitlines()[-2:]
    assert f"{run}-node-0-1" in failed and "FAILED" in failed and "TCP" in failed
    assert count == "1 of 2 checks failed."


def test_a_directory_of_logs_is_explained(trainway: Trainway) -> None:
    captured = ROOT / "tests/explain/failures/gpu-memory"
    said = trainway("explain", str(captured))
    assert said.returncode == 0 and said.stdout.startswith("cause:"), said.stderr
    assert json.loads(trainway("explain", str(captured), "--json").stdout)
