"""A node that cannot be provisioned: its log ends in time, with what, where, why and the remedy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle_scripts.cluster_documents import LUSTRE
from tests.lifecycle_scripts.nodes import DOWNLOADED, RESOURCE_CONFIG, Lab, Node, missing, nodes

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

# What is waited for, in seconds, and how long a run may then take in all on a machine that does other things too.
WAITS: dict[str, Any] = {
    "FACTS_WAIT_SECONDS": "1",
    "MOUNT_WAIT_SECONDS": "2",
    "MOUNT_RETRY_SECONDS": "0.2",
    "SLURM_WAIT_SECONDS": "3",
    "USERS_WAIT_SECONDS": "2",
}
# Beside other tests, a step takes several times as long as alone.
SOON_SECONDS = 120.0
USERS = "s3://platform/lifecycle_scripts/slurm-users.json"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    parameters = {"slurm_users": {"s3_uri": USERS, "region": "us-west-2"}}
    with nodes(tmp_path_factory.mktemp("lab"), {"controller": ["ctl"], "train": ["n1"]}, parameters=parameters) as lab:
        write_users(lab, [])
        assert lab["ctl"].provision().returncode == 0
        yield lab


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    """A node without its file system, which after the test, whatever that has done to it, is provisioned."""
    node = lab["n1"]
    node.run("umount", "--lazy", "/fsx", check=False)
    yield node
    node.run("umount", "--lazy", "/fsx", check=False)
    node.run("rm", "-f", "/etc/stand-ins/lustre", "/full")
    done = node.provision()
    assert done.returncode == 0, done.stdout


def write_users(lab: Lab, users: list[dict[str, Any]]) -> None:
    document = {"version": 1, "owner": "trainway/atlas", "homes": "/fsx/users", "directories": "/fsx/users"}
    file = lab.s3 / USERS.removeprefix("s3://")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document | {"mounts": ["/fsx"], "groups": [], "users": users}))


def user(name: str, uid: int) -> dict[str, Any]:
    return {"name": name, "uid": uid, "groups": [], "keys": [], "sudo": False}


def in_time(node: Node, **environment: Any) -> subprocess.CompletedProcess[str]:
    """Return the run, which must not be one that was ended at the limit."""
    done = node.provision(timeout=SOON_SECONDS, **(WAITS | environment))
    assert done.returncode != 124, done.stdout
    return done


def fails(node: Node, step: str, *says: str, **environment: str) -> None:
    """The run ends with status 1, and with a line that says all of this."""
    done = in_time(node, **environment)
    line = done.stdout.splitlines()[-1]
    assert done.returncode == 1, done.stdout
    assert line.startswith(f"[{step}] ") and "FAILED" in line, done.stdout
    assert not [text for text in says if text not in line], line
    # CloudWatch has the log, and support reads it on the node.
    assert line in node.run("tail", "-n", "1", "/var/log/provision/provisioning.log").stdout


@pytest.mark.exhaustive
def test_lustre_is_absent(node: Node) -> None:
    node.write("/etc/stand-ins/lustre", "absent")
    remedy = "check the security group (988, 1018-1023), the zone and DNS of fs-1.fsx"
    fails(node, "20-lustre", "/fsx is not mounted after 2 s", "Is the MGS running?", remedy)


@pytest.mark.exhaustive
def test_lustre_does_not_answer(node: Node) -> None:
    node.write("/etc/stand-ins/lustre", "hangs")
    fails(node, "20-lustre", "/fsx is not mounted after 2 s", "check the security group")
    assert not node.run("pgrep", "--full", "[m]ount.lustre", check=False).stdout


@pytest.mark.exhaustive
def test_lustre_is_slow(node: Node) -> None:
    node.write("/etc/stand-ins/lustre", "slow")
    # Nothing fails here, so every wait ends, and no wait is shorter than on a node.
    done = node.provision()
    assert done.returncode == 0, done.stdout
    node.run("mountpoint", "/fsx")


@pytest.mark.exhaustive
def test_lustre_is_read_only(node: Node) -> None:
    node.write("/etc/stand-ins/lustre", "read-only")
    fails(node, "20-lustre", "/fsx is mounted read-only", "replace the node")


@pytest.mark.parametrize("left_bytes", [0, pytest.param(4096, marks=pytest.mark.exhaustive)])
def test_the_disk_is_full(node: Node, left_bytes: int) -> None:
    fill = "head -c $(($(df --output=avail -B1 / | tail -n 1) - $1)) /dev/zero >/full; sync; df --output=avail -B1 /"
    node.run("bash", "-c", fill, "-", str(left_bytes), check=False)
    # What a step waits for has time to come, so that the disk alone fails the run.
    done = in_time(node, MOUNT_WAIT_SECONDS="30", SLURM_WAIT_SECONDS="30", USERS_WAIT_SECONDS="30")
    assert done.returncode == 1, done.stdout
    # The log may have had room for this line in its last block, or say after it that it has none.
    line = [each for each in done.stdout.splitlines() if not each.startswith("[log]")][-1]
    assert "FAILED" in line and "No space left on device" in line, done.stdout
    assert "/var/" in line or "/etc/" in line or "/opt/" in line, line


@pytest.mark.exhaustive
def test_two_users_have_one_number(lab: Lab, node: Node) -> None:
    write_users(lab, [user("ada", 2001), user("ben", 2001), user("root", 2003), user("eve", 2004), user("eve", 2005)])
    done = in_time(node)
    write_users(lab, [])
    assert done.returncode == 0, done.stdout
    said = [line for line in done.stdout.splitlines() if line.startswith("[27-users]")]
    for refused in (
        "user 'ben' is refused: user 'ada' before it in the document has the uid 2001 already",
        "user 'root' is refused: this node's image has an account of that name (uid 0)",
        "user 'eve' is refused: user 'eve' before it in the document has the name already",
    ):
        assert [line for line in said if refused in line], said
    known = node.run("getent", "passwd", "ada", "eve").stdout.splitlines()
    assert [line.split(":")[2] for line in known] == ["2001", "2004"]
    assert "[finished]" in done.stdout.splitlines()[-1]


# tests/lifecycle_scripts/test_node_facts.py reads such files without a node.
@pytest.mark.exhaustive
def test_json_is_cut_off(node: Node) -> None:
    for file in (RESOURCE_CONFIG, f"{DOWNLOADED}/parameters.json"):
        whole = (node.root / file.lstrip("/")).read_text()
        node.write(file, whole[: len(whole) // 2])
        fails(node, "start", "this node's place in the cluster is unknown")
        assert f"{file}: not JSON" in node.run("tail", "-n", "2", "/var/log/provision/provisioning.log").stdout
        node.write(file, whole)


@pytest.mark.exhaustive
def test_the_node_is_not_in_the_resource_config(node: Node) -> None:
    whole = (node.root / RESOURCE_CONFIG.lstrip("/")).read_text()
    node.write(RESOURCE_CONFIG, whole.replace(node.address, "10.81.0.99"))
    fails(node, "start", "this node's place in the cluster is unknown")
    assert f"({node.address})" in node.run("tail", "-n", "2", "/var/log/provision/provisioning.log").stdout
    node.write(RESOURCE_CONFIG, whole)


@pytest.mark.exhaustive
def test_no_controller_answers(lab: Lab, node: Node) -> None:
    node.run("systemctl", "stop", "slurmd", check=False)
    lab["ctl"].run("systemctl", "stop", "slurmctld")
    fails(node, "30-slurm", lab["ctl"].address)
    lab["ctl"].run("systemctl", "start", "slurmctld")


@pytest.mark.exhaustive
def test_a_step_that_never_ends_is_ended(node: Node) -> None:
    node.write("/etc/stand-ins/lustre", "hangs")
    fails(node, "20-lustre", "ran past its limit of 2 seconds", STEP_TIMEOUT_SECONDS="2", MOUNT_WAIT_SECONDS="60")
    assert not node.run("pgrep", "--full", "[m]ount.lustre", check=False).stdout
    assert LUSTRE["mount_path"] not in node.run("findmnt", "--noheadings", "--output", "TARGET").stdout.split()
