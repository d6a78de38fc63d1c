"""slurmctld itself reads slurm.conf and its companions, whole, of every Slurm platform."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from lifecycle_scripts.node_facts import nodes
from lifecycle_scripts.slurm.platform_settings import settings
from lifecycle_scripts.slurm_conf import files
from lifecycle_scripts.slurm_settings import with_settings
from tests.seams.seam import Planted, Seam
from tests.seams.slurm_node import parameters_of, provisioned, slurm_platforms
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import slurm_accounts

Files = dict[str, str]
# How Debian's Slurm names its version; HyperPod's is newer.
VERSION = "slurm-wlm 22.05.8"
PLUGSTACK = "include /etc/slurm/plugstack.conf.d/*.conf\n"
# Starts slurmctld on the files of a directory, without any state, prints what it says, and ends it when it has read
# them. The messages about jobs and nodes that come later are not about the files.
READ = r"""
cd "$1"
systemctl stop slurmctld
mount -t tmpfs -o mode=755 state /var/spool/slurmctld
chown -R slurm: . /var/spool/slurmctld
runuser --user=slurm -- timeout 120 /opt/slurm/sbin/slurmctld -D -c -f "$1/slurm.conf" >said 2>&1 &
until grep -q 'Running as primary controller' said || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
sed '/Running as primary controller/q' said
! kill -0 $! 2>/dev/null || timeout 60 scontrol show config >/dev/null || echo 'error: scontrol show config failed'
kill $! 2>/dev/null
wait
umount /var/spool/slurmctld
systemctl start slurmctld
"""
# Faults of this machine: it has no mail program and no PMIx, only root may write a PID file, and slurmctld can find its
# clock slow when it is busy. The other messages are meant: MaxNodeCount keeps room for later nodes, the new cluster has
# no saved state, and a backup controller does not answer here.
NOT_THE_FILES = re.compile(
    r"pidfile|MailProg|[Pp][Mm][Ii]x|switches lack access to \d+ nodes: $"
    r"|High latency for \d+ calls to gettimeofday|_shutdown_bu_thread|[Ss]tate (save )?file|may be lost"
)


def rendered(platform: Platform, *, controllers: int = 1, places: bool = True) -> Files:
    """Return every file of the controller as the lifecycle scripts leave it."""
    parameters = parameters_of(platform)
    addresses = itertools.count(20)

    def instances(count: int) -> list[dict[str, Any]]:
        layers = {f"topology.k8s.aws/network-node-layer-{n}": f"nn-{n}" for n in (1, 2, 3)} if places else None
        return [{"CustomerIpAddress": f"10.81.0.{next(addresses)}", "InstanceLabel": layers} for _ in range(count)]

    head = provisioned()["ctl"].address
    heads = [{"CustomerIpAddress": head}, *instances(controllers - 1)]
    groups = [{"Name": "controller", "InstanceType": "ml.m7i.2xlarge", "Instances": heads}]
    groups += [
        {"Name": group.name, "InstanceType": f"ml.{group.instance_type}", "Instances": instances(max(1, group.count))}
        for group in platform.node_groups
    ]
    config = {"InstanceGroups": groups, "SlurmConfig": {"PrimaryControllerIp": head}}
    made = {
        name: text for name, text in files(nodes(config, parameters), parameters, "atlas", "/fsx/x").items() if text
    }
    blocks = {
        "platform": settings(parameters["slurm"], VERSION, "/opt/trainway/slurm"),
        "teams": slurm_accounts(platform)["settings"],
    }
    for part, keys in blocks.items():
        made["slurm.conf"] = with_settings(made["slurm.conf"], part, keys)
    return made | {"plugstack.conf": PLUGSTACK}


def read_by_slurm(made: Files) -> list[str]:
    """Return what slurmctld complains about before it takes over the cluster, then slurmd of a node, then srun."""
    node = provisioned()["ctl"]
    folder = "/var/spool/seam"
    node.run("rm", "-rf", folder)
    for name, text in made.items():
        node.write(f"{folder}/{name}", text)
    there: dict[str, Any] = {"SLURM_CONF": f"{folder}/slurm.conf"}
    # Other tests run at the same time, so each limit is many times what a reading takes.
    said = node.run("bash", "-c", READ, "-", folder, check=False, timeout=1800, **there).stdout
    problems = complaints(said)
    if "Running as primary controller" not in said:
        problems.append(f"slurmctld did not start: {said[-500:]}")
    if "gres.conf" in made:
        name = made["gres.conf"].split()[0].removeprefix("NodeName=")
        devices = node.run("/opt/slurm/sbin/slurmd", "-G", "-N", name, check=False, **there)
        problems += complaints(devices.stdout + devices.stderr)
        if devices.returncode or "Gres Name=" not in devices.stdout + devices.stderr:
            problems.append(f"slurmd of {name} has no devices")
    # Loads the plug-ins of plugstack.conf.
    usage = node.run("srun", "--usage", check=False, **there)
    return problems + (complaints(usage.stderr) if usage.returncode else [])


def complaints(said: str) -> list[str]:
    """Return the lines that are errors about the files."""
    lines = said.splitlines()
    return [line for line in lines if re.search(r"error:|fatal:", line) and not NOT_THE_FILES.search(line)]


def example() -> Files:
    return rendered(slurm_platforms()["hyperpod-slurm-p5en"])


def changed(file: str, old: str, new: str) -> Files:
    """Return the example's files with a text replaced, or with a line more where there is no old text."""
    made = example()
    assert old in made[file], f"{file} has no {old!r}"
    return made | {file: made[file].replace(old, new, 1) if old else made[file] + new}


def planted(error: str, file: str, old: str, new: str) -> Planted:
    return Planted(
        error,
        sound=lambda _: read_by_slurm(example()),
        broken=lambda _: read_by_slurm(changed(file, old, new)),
    )


# The error, the file, and what is replaced by what.
PLANTED = (
    ("slurm.conf has a key that Slurm does not know", "slurm.conf", "MpiDefault=", "MpiDefaults="),
    ("a setting has a value outside its enum", "slurm.conf", "=CR_Core", "=CR_Chip"),
    ("a plug-in has a wrong name", "slurm.conf", "=topology/tree", "=topology/trees"),
    ("the type of a node's devices is not declared", "slurm.conf", "GresTypes=gpu\n", ""),
    ("gres.conf has a key that Slurm does not know", "gres.conf", " File=", " Path="),
    ("cgroup.conf has a key that Slurm does not know", "cgroup.conf", "ConstrainCores", "ConstrainCore"),
    ("a switch connects a node that does not exist", "topology.conf", "Nodes=", "Nodes=absent,"),
    ("a partition has nodes that do not exist", "slurm.conf", "Nodes=train-nodes", "Nodes=trains-nodes"),
    ("plugstack.conf requires a plug-in that is absent", "plugstack.conf", "", "required /absent.so\n"),
)
SEAMS = (
    Seam(
        artifact="slurm.conf, gres.conf, topology.conf, cgroup.conf and plugstack.conf",
        rendered_by="lifecycle_scripts/slurm_conf.py",
        reader="slurmctld, `slurmd -G` and srun of Slurm 22.05, with slurmdbd, on a provisioned controller",
        instead="HyperPod's own, newer build of Slurm is in no registry. HyperPod writes most of slurm.conf itself. "
        "Slurm 24.11 of Debian 13 started by hand with the same files but without accounting, on 2026-11-22.",
        planted=tuple(planted(*error) for error in PLANTED),
        exhaustive=True,
    ),
)


@pytest.mark.exhaustive
@pytest.mark.parametrize("places", [True, False])
@pytest.mark.parametrize("name", sorted(slurm_platforms()))
def test_slurmctld_starts_with_the_files_of_every_platform(name: str, places: bool) -> None:
    assert read_by_slurm(rendered(slurm_platforms()[name], places=places)) == []


@pytest.mark.exhaustive
def test_slurmctld_starts_with_a_backup_controller() -> None:
    made = rendered(slurm_platforms()["slurm-plain"], controllers=2)
    provisioned()["ctl"].run("install", "-d", "-o", "slurm", "/fsx/x/state")
    assert read_by_slurm(made) == []


@pytest.mark.exhaustive
def test_a_key_of_the_users_that_slurm_does_not_know_is_found() -> None:
    platform = slurm_platforms()["slurm-walls"]
    slurm = platform.slurm_or_default.model_copy(update={"settings": {"MessageTimeouts": "30"}})
    (said, *_) = read_by_slurm(rendered(platform.model_copy(update={"slurm": slurm})))
    assert "MessageTimeouts" in said


@pytest.mark.exhaustive
def test_the_files_are_not_empty() -> None:
    made = example()
    assert set(made) == {"slurm.conf", "gres.conf", "topology.conf", "cgroup.conf", "plugstack.conf"}
    assert json.dumps(made).count("gpu:h200:8") == slurm_platforms()["hyperpod-slurm-p5en"].node_groups[0].count
