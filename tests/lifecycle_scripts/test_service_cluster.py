"""The same scripts after HyperPod has configured and started Slurm and mounted the file system: they add to that.

https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-getting-started-slurm-cli.html (read 2026-11-22)
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle_scripts.cluster_documents import LUSTRE
from tests.lifecycle_scripts.nodes import Lab, Node, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

ENTRY = "on_init_complete.sh"
PARAMETERS = {"fsx": LUSTRE | {"mounted_by": "service"}, "slurm": {"health_checks": True}}
WAITS: dict[str, Any] = {"MOUNT_WAIT_SECONDS": "2", "MOUNT_RETRY_SECONDS": "0.2", "SLURM_WAIT_SECONDS": "3"}
CONTROLLER = """
ClusterName=hyperpod
SlurmctldHost={controller}
SlurmUser=slurm
SlurmctldParameters=enable_configless
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
NodeName={nodes} CPUs={cpus} State=UNKNOWN
PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def hyperpod_starts_slurm(lab: Lab) -> None:
    """What the service has done when it runs OnInitComplete, as far as its documentation says."""
    controller, compute = lab["ctl"], [lab["n1"], lab["n2"]]
    key = os.urandom(128)
    for node in lab.nodes.values():
        (node.root / "etc/munge/munge.key").write_bytes(key)
        node.run("bash", "-c", "cd /etc/munge; chown munge: munge.key; chmod 400 munge.key; systemctl start munge")
    names = ",".join(node.hostname for node in compute)
    configuration = CONTROLLER.format(controller=controller.hostname, nodes=names, cpus=os.cpu_count())
    controller.write("/opt/slurm/etc/slurm.conf", configuration)
    controller.run("install", "-d", "-o", "slurm", "/var/spool/slurmctld")
    controller.run("systemctl", "enable", "--now", "--quiet", "slurmctld")
    wait_for("slurmctld answers", lambda: controller.run("scontrol", "ping", check=False).returncode == 0)
    for node in compute:
        options = f'[Service]\nEnvironment="SLURMD_OPTIONS=--conf-server {controller.address}"\n'
        node.write("/etc/systemd/system/slurmd.service.d/hyperpod.conf", options)
        node.run("systemctl", "daemon-reload")
        node.run("systemctl", "enable", "--now", "--quiet", "slurmd")


def hyperpod_mounts(node: Node) -> None:
    node.run("bash", "-c", "mkdir -p /fsx; mountpoint -q /fsx || mount -t lustre fs-1@tcp:/abc /fsx")


def states(lab: Lab) -> list[str]:
    return lab["ctl"].run("sinfo", "--noheader", "--Node", "--format=%T").stdout.split()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    groups = {"controller": ["ctl"], "train": ["n1", "n2"]}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters=PARAMETERS) as lab:
        hyperpod_starts_slurm(lab)
        yield lab


def test_a_file_system_that_hyperpod_has_not_mounted_is_reported(lab: Lab) -> None:
    done = lab["n1"].provision(ENTRY, **WAITS)
    line = done.stdout.splitlines()[-1]
    assert done.returncode == 1 and line.startswith("[20-lustre] ")
    assert "/fsx is not mounted after 2 s (HyperPod has not mounted it); check the security group" in line


def test_no_job_begins_on_a_node_that_is_not_ready(lab: Lab) -> None:
    told = lab["ctl"].run("sinfo", "--noheader", "--format=%T %E", "--nodes", lab["n1"].hostname).stdout
    assert told.startswith("drained Trainway: lifecycle scripts are not done, see /var/log/provision/provisioning.log")


def test_a_daemon_that_hyperpod_has_not_started_is_reported_and_not_started(lab: Lab) -> None:
    hyperpod_mounts(lab["n1"])
    lab["n1"].run("systemctl", "stop", "slurmd")
    done = lab["n1"].provision(ENTRY, **WAITS)
    line = done.stdout.splitlines()[-1]
    assert done.returncode == 1 and line.startswith("[30-slurm] ")
    assert "slurmd is not active after 3 s; `journalctl -u slurmd` on this node says why" in line
    lab["n1"].run("systemctl", "start", "slurmd")


def test_what_hyperpod_made_stays_and_the_platforms_is_added(lab: Lab) -> None:
    for node in lab.nodes.values():
        hyperpod_mounts(node)
    before = (lab["ctl"].root / "opt/slurm/etc/slurm.conf").read_text()
    started = {name: lab[name].run("pgrep", "--oldest", "slurmd").stdout for name in ("n1", "n2")}
    for name, done in lab.provision(entry=ENTRY).items():
        assert done.returncode == 0, f"{name}: {done.stdout}"
    after = (lab["ctl"].root / "opt/slurm/etc/slurm.conf").read_text()
    assert after.startswith(before.rstrip("\n"))
    assert "HealthCheckProgram=" in after.removeprefix(before)
    assert {name: lab[name].run("pgrep", "--oldest", "slurmd").stdout for name in ("n1", "n2")} == started
    # The last step has let jobs come; the controller asks the nodes anew after its restart.
    wait_for("the nodes are idle", lambda: states(lab) == ["idle", "idle"])
    assert lab["ctl"].run("srun", "--nodes=2", "hostname", timeout=300).stdout.split()


@pytest.mark.exhaustive
def test_a_second_run_changes_nothing(lab: Lab) -> None:
    before = {name: node.snapshot(times=True) for name, node in lab.nodes.items()}
    for done in lab.provision(entry=ENTRY).values():
        assert done.returncode == 0, done.stdout
    assert {name: node.snapshot(times=True) for name, node in lab.nodes.items()} == before
    assert states(lab) == ["idle", "idle"]


def test_a_node_that_somebody_drained_stays_so(lab: Lab) -> None:
    drain = ("scontrol", "update", f"nodename={lab['n1'].hostname}", "state=drain", "reason=a broken fan")
    lab["ctl"].run(*drain)
    assert lab["n1"].provision(ENTRY, **WAITS).returncode == 0
    assert states(lab) == ["drained", "idle"]
    lab["ctl"].run("scontrol", "update", f"nodename={lab['n1'].hostname}", "state=resume")


def test_nothing_is_asked_of_the_internet(lab: Lab) -> None:
    assert lab.asked_outside() == []
