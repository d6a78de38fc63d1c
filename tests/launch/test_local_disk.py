"""A job with `checkpoint.local_disk` gets the disk of its node on each target, or is told that there is none."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from tests.known_day import ON_KNOWN_DAY
from tests.launch.conftest import load_job, write_job
from tests.launch.kubernetes.every_kind import documents_of, templates_of
from tests.launch.slurm.requests import CATALOGUE, on_slurm, request
from tests.synthesis import ROOT
from trainway.cli import app
from trainway.launch.kubernetes import Kind
from trainway.launch.local.run import render_local
from trainway.launch.slurm import SlurmOptions, render_script
from trainway.spec.handoff import HandOff

ON_DISK: dict[str, Any] = {"checkpoint": {"every": 500, "memory_every": 50, "local_disk": True}}
BATCH: dict[str, Any] = {"batch": {"global": 16, "micro": 1}}
VARIABLE = "TRAINWAY_LOCAL_DISK"


def test_a_job_under_slurm_has_the_disk_of_the_node_in_and_without_a_container(
    hand_off: HandOff, tmp_path: Path
) -> None:
    asked = request(tmp_path, on_slurm(hand_off, instance_type="p5.48xlarge"), **ON_DISK, **BATCH)
    script = render_script(asked, CATALOGUE, SlurmOptions(environment=PurePosixPath("/fsx/envs/ada")))
    # The directory that lifecycle_scripts/local_disks.sh creates there, with mode 1777.
    place = re.search(r"^place=(\S+)$", (ROOT / "lifecycle_scripts/local_disks.sh").read_text(), re.M)
    assert place and f"\nexport {VARIABLE}={place[1]}/jobs\n" in script
    assert "for name in jobs tmp" in (ROOT / "lifecycle_scripts/lib.sh").read_text()
    script = render_script(asked, CATALOGUE)
    exported = re.findall(rf"^export {VARIABLE}=(.*)$", script, re.M)
    (mounts,) = re.findall(r"--container-mounts=(\S+)", script)
    at = dict(mount.split(":") for mount in mounts.split(","))
    assert exported[-1].startswith(f"{at['/opt']}/")
    assert exported[-1].replace(at["/opt"], "/opt", 1) == exported[0] == f"{place[1]}/jobs"


@pytest.mark.parametrize(("instance_type", "changes"), [("p5.48xlarge", {}), ("m7i.8xlarge", ON_DISK)])
def test_a_job_without_the_key_or_without_the_disk_has_neither_variable_nor_mount(
    instance_type: str, changes: dict[str, Any], hand_off: HandOff, tmp_path: Path
) -> None:
    asked = request(tmp_path, on_slurm(hand_off, instance_type=instance_type), **changes, **BATCH)
    script = render_script(asked, CATALOGUE)
    assert VARIABLE not in script and "--container-mounts=/fsx:/fsx " in script


def mounted(template: dict[str, Any]) -> tuple[str | None, dict[str, Any] | None]:
    """Return the directory that a pod names to its job, and the volume that is mounted there for writing."""
    (container,) = template["spec"]["containers"]
    told = {each["name"]: each.get("value") for each in container["env"]}.get(VARIABLE)
    volumes = {each["name"]: each for each in template["spec"]["volumes"]}
    found = [volumes[each["name"]] for each in container["volumeMounts"] if each["mountPath"] == told]
    assert not any(each.get("readOnly") for each in container["volumeMounts"] if each["mountPath"] == told)
    return told, found[0] if found else None


@pytest.mark.parametrize("kind", ["TrainJob", "JobSet", "PyTorchJob"])
def test_pods_on_nodes_with_disks_have_a_volume_on_them(kind: Kind) -> None:
    for template in templates_of(documents_of(kind, "p5.48xlarge", {}, **ON_DISK)):
        told, volume = mounted(template)
        assert told and volume and volume["emptyDir"] == {}, "a volume with another medium is not on the disk"
    for instance_type, changes in (("p5.48xlarge", {}), ("m7i.2xlarge", ON_DISK)):
        for template in templates_of(documents_of(kind, instance_type, {}, **changes)):
            assert mounted(template) == (None, None)
            assert "local-disk" not in str(template)


def test_pods_of_hyperpod_whose_kubelet_is_on_another_volume_have_none() -> None:
    for template in templates_of(documents_of("HyperPodPyTorchJob", "p5.48xlarge", {}, **ON_DISK)):
        assert mounted(template) == (None, None)


def test_a_job_on_this_machine_has_a_directory_that_outlives_a_restart(tmp_path: Path) -> None:
    def environment(**changes: Any) -> dict[str, str]:
        program = load_job(tmp_path, batch={"global": 16, "micro": 1}, **changes)
        return render_local(program, tmp_path, processes=1, hand_off=None).environment

    assert environment(**ON_DISK)[VARIABLE] == "/var/tmp"
    assert VARIABLE not in environment()


@pytest.mark.parametrize(
    ("example", "instance_type", "why"),
    [
        ("eks-p5", "p5.48xlarge", None),
        ("eks-p5", "m7i.8xlarge", "no NVMe instance storage is in m7i.8xlarge"),
        ("hyperpod-eks-p5", "p5.48xlarge", "the kubelet of HyperPod's nodes keeps the files of pods on another volume"),
        ("hyperpod-slurm-p5en", "p5en.48xlarge", None),
    ],
)
def test_a_check_says_that_nodes_have_no_local_disk(
    example: str, instance_type: str, why: str | None, tmp_path: Path
) -> None:
    described = yaml.safe_load((ROOT / "examples" / f"{example}.yaml").read_text())
    groups = [{"name": "train", "instance_type": instance_type, "count": 2}]
    for key in ("teams", "existing_cluster"):
        described.pop(key, None)
    # Nodes without EFA reach no file system over EFA.
    described["storage"]["lustre"].pop("efa", None)
    platform = tmp_path / "platform.yaml"
    platform.write_text(yaml.safe_dump({**described, "node_groups": groups}))
    job = write_job(tmp_path, nodes=2, batch={"global": 16, "micro": 1}, **ON_DISK)
    said = CliRunner().invoke(app, ["check", str(job), "--platform", str(platform), *ON_KNOWN_DAY])
    assert said.exit_code == 0, said.output
    lines = [line for line in said.output.splitlines() if "local disk" in line]
    if why is None:
        assert lines == []
    else:
        (line,) = lines
        assert line.startswith("warning: ") and f": {why}: leave checkpoint.local_disk out" in line, shlex.quote(line)
