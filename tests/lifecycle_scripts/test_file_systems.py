"""FSx for Lustre and homes on OpenZFS: mounted, verified, back after a power cut, or one line that says why not."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.lifecycle_scripts.cluster_documents import LUSTRE
from tests.lifecycle_scripts.nodes import DOWNLOADED, Lab, Node, at_once, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for
from tests.lifecycle_scripts.steps import run_step

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

HOMES = {"dns_name": "fs-2.fsx.us-west-2.amazonaws.com", "mount_path": "/home", "mounted_by": "script"}
IMPATIENT = {"MOUNT_RETRY_SECONDS": "0.2", "MOUNT_WAIT_SECONDS": "1", "MOUNT_PROBE_SECONDS": "3"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    groups = {"controller": ["ctl"], "train": ["n1"]}
    with nodes(tmp_path_factory.mktemp("lab"), groups, parameters={"homes": HOMES}) as made:
        yield made


@pytest.fixture
def node(lab: Lab) -> Iterator[Node]:
    """With nothing mounted, and nothing of an earlier test's in fstab."""
    node = lab["n1"]
    yield node
    for path in ("/fsx", "/home"):
        while node.run("mountpoint", "-q", path, check=False).returncode == 0:
            node.run("umount", path)
    for left in ("/etc/stand-ins/lustre", "/etc/stand-ins/nfs", "/etc/fstab", "/run/lustre"):
        node.run("rm", "-f", left)


def wrong(node: Node, kind: str, what: str) -> None:
    node.write(f"/etc/stand-ins/{kind}", f"{what}\n")


def last_line(text: str) -> str:
    return text.splitlines()[-1]


def test_lustre_is_mounted_once_and_is_there_again_after_a_power_cut(node: Node) -> None:
    first = run_step(node, "20-lustre")
    assert (first.returncode, last_line(first.stdout)) == (0, "/fsx is mounted and writable"), first.stdout
    before = node.snapshot(times=True)
    again = run_step(node, "20-lustre")
    assert again.stdout == "/fsx is mounted and writable\n"
    assert node.snapshot(times=True) == before
    node.cut_power()
    node.boot()
    assert run_step(node, "20-lustre").stdout == "/fsx is mounted and writable\n"


def test_an_entry_of_fstab_that_somebody_else_made_of_another_path_stays(node: Node) -> None:
    others = "# disks\ntmpfs /scratch tmpfs defaults,noauto 0 0\n"
    node.write("/etc/fstab", f"{others}fs-old@tcp:/old /fsx lustre defaults 0 0\n")
    assert run_step(node, "20-lustre").returncode == 0
    options = "noatime,flock,_netdev,x-systemd.requires=network-online.target"
    entry = f"{LUSTRE['dns_name']}@tcp:/abc /fsx lustre {options} 0 0\n"
    assert (node.root / "etc/fstab").read_text() == others + entry


@pytest.mark.parametrize(
    ("what", "status", "line"),
    [
        ("absent", 1, "/fsx is not mounted after 1 s (Is the MGS running?); check the security group (988, 1018-1023)"),
        ("hangs", 1, "/fsx is not mounted after 1 s (mount gave no answer); check the security group (988, 1018-1023)"),
        ("slow", 1, "/fsx is not mounted after 1 s (mount gave no answer); check the security group (988, 1018-1023)"),
        ("read-only", 1, "/fsx is mounted read-only: its client was cut off, or it is being restored"),
        (
            "full",
            0,
            "WARNING: /fsx is mounted, and full: remove what nobody needs, or raise storage.lustre.capacity_tib",
        ),
    ],
)
def test_what_is_wrong_with_lustre_is_said_in_time(node: Node, what: str, status: int, line: str) -> None:
    wrong(node, "lustre", what)
    done = run_step(node, "20-lustre", **IMPATIENT)
    assert done.returncode == status, done.stdout
    assert last_line(done.stdout).startswith(line)


def test_a_lustre_that_comes_within_its_time_is_waited_for(node: Node) -> None:
    wrong(node, "lustre", "absent")
    node.run("rm", "-f", "/run/lustre-was-absent")
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_step, node, "20-lustre", MOUNT_RETRY_SECONDS="0.2")
        tried = ("test", "-e", "/run/lustre-was-absent")
        wait_for("the step has tried to mount it", lambda: node.run(*tried, check=False).returncode == 0)
        assert not running.done()
        node.run("rm", "/etc/stand-ins/lustre")
        done = running.result()
    assert (done.returncode, last_line(done.stdout)) == (0, "/fsx is mounted and writable")


def test_users_may_write_runs_data_and_checkpoints_and_nobody_elses(node: Node, lab: Lab) -> None:
    """FSx has made a directory for root alone, and somebody has closed another one."""
    for name, mode in (("runs", 0o755), ("corpus", 0o2750)):
        shutil.rmtree(lab.shared / name, ignore_errors=True)
        (lab.shared / name).mkdir()
        (lab.shared / name).chmod(mode)
    assert run_step(node, "20-lustre").returncode == 0
    modes = {
        name: oct((lab.shared / name).stat().st_mode & 0o7777) for name in ("checkpoints", "corpus", "images", "runs")
    }
    assert modes == {"checkpoints": "0o1777", "corpus": "0o2750", "images": "0o1777", "runs": "0o1777"}
    node.run("setpriv", "--reuid=1000", "--clear-groups", "mkdir", "/fsx/runs/own")
    assert node.run("setpriv", "--reuid=1001", "--clear-groups", "rmdir", "/fsx/runs/own", check=False).returncode


def test_a_lustre_that_root_may_not_write_to_is_there_all_the_same(node: Node, lab: Lab) -> None:
    """As under root squash: root without what makes it root, in a directory of somebody else's."""
    assert run_step(node, "20-lustre").returncode == 0
    lab.shared.chmod(0o755)
    os.chown(lab.shared, 65534, 65534)
    facts = [f"FSX_{name.upper()}={value}" for name, value in LUSTRE.items()]
    try:
        facts += ["ORCHESTRATOR=hyperpod-slurm", "NODE_ROOT="]
        squashed = ["setpriv", "--bounding-set=-dac_override", "env", *facts]
        done = node.run(*squashed, "bash", f"{DOWNLOADED}/steps/20-lustre.sh", check=False)
    finally:
        os.chown(lab.shared, 0, 0)
    assert (done.returncode, last_line(done.stdout)) == (0, "/fsx is mounted, and root may not write to it")


@pytest.mark.parametrize(
    "mount", [("-t", "tmpfs", "scratch"), ("-t", "lustre", "fs-9.fsx@tcp:/other")], ids=["tmpfs", "another Lustre"]
)
def test_another_file_system_in_its_place_is_not_taken_for_it(node: Node, mount: tuple[str, ...]) -> None:
    node.run("mkdir", "-p", "/fsx")
    node.run("mount", *mount, "/fsx")
    done = run_step(node, "20-lustre", **IMPATIENT)
    assert done.returncode == 1
    assert last_line(done.stdout).startswith("/fsx is "), done.stdout
    assert ", and not fs-1.fsx.us-west-2.amazonaws.com@tcp:/abc: take that mount out of the image" in done.stdout


def test_homes_are_mounted_and_nobody_is_without_a_home(node: Node, lab: Lab) -> None:
    node.write("/home/ubuntu/.ssh/authorized_keys", "ssh-ed25519 AAAA ubuntu\n", mode=0o600)
    node.run("chown", "-R", "ubuntu:ubuntu", "/home/ubuntu")
    first = run_step(node, "22-home")
    assert first.returncode == 0, first.stdout
    assert "/home is mounted and writable" in first.stdout
    owner = node.run("stat", "--format=%U %a", "/home/ubuntu/.ssh/authorized_keys").stdout
    assert owner == "ubuntu 600\n"
    assert (lab.shared / ".homes/ubuntu/.ssh/authorized_keys").read_text() == "ssh-ed25519 AAAA ubuntu\n"
    # What is on the file system is not overwritten.
    (lab.shared / ".homes/ubuntu/notes").write_text("kept")
    before = node.snapshot(times=True)
    again = run_step(node, "22-home")
    assert again.stdout == "/home is mounted and writable\n"
    assert node.snapshot(times=True) == before
    assert [path.name for path in (lab.shared / ".homes").iterdir()] == ["ubuntu"]
    node.cut_power()
    node.boot()
    assert node.run("cat", "/home/ubuntu/notes").stdout == "kept"
    # The disk of the node still has its own, below the mount.
    assert (node.root / "home/ubuntu/.ssh").is_dir()


@pytest.mark.usefixtures("node")
def test_two_nodes_that_bring_homes_at_once_leave_one(lab: Lab) -> None:
    homes = lab.shared / ".homes"
    lab["ctl"].run("rm", "-rf", "/opt/outside/fsx/.homes")
    for name in ("ctl", "n1"):
        lab[name].run("sh", "-c", "mkdir -p /home/ubuntu; seq 20000 >/home/ubuntu/numbers")
    done = at_once(lambda name: run_step(lab[name], "22-home"), ["ctl", "n1"])
    assert {each.returncode for each in done.values()} == {0}, done
    assert [path.name for path in homes.iterdir()] == ["ubuntu"]
    assert len((homes / "ubuntu/numbers").read_text().split()) == 20000


def test_a_copy_of_a_home_that_is_killed_anywhere_is_made_good_by_the_next_run(node: Node, lab: Lab) -> None:
    """Seen by whoever logs in meanwhile, it is whole or not there."""
    home = lab.shared / ".homes/ubuntu"
    node.run("sh", "-c", "mkdir -p /home/ubuntu; seq 20000 >/home/ubuntu/numbers")
    killed = "set -T; trap '((++COMMAND != KILLED_AT)) || kill -9 $$' DEBUG"
    node.write("/opt/killed", f'[[ "${{1:-}}" != /home ]] || {{ {killed}; }}\n')
    assert run_step(node, "22-home").returncode == 0
    times = 0
    for number in range(1, 100, 2):
        node.run("rm", "-rf", "/opt/outside/fsx/.homes/ubuntu")
        done = run_step(node, "22-home", BASH_ENV="/opt/killed", KILLED_AT=str(number))
        if done.returncode == 0:
            break
        times += 1
        assert not home.exists() or len((home / "numbers").read_text().split()) == 20000
        assert run_step(node, "22-home").returncode == 0
        assert [path.name for path in home.parent.iterdir()] == ["ubuntu"]
        assert len((home / "numbers").read_text().split()) == 20000
    assert times > 3


@pytest.mark.parametrize(
    ("what", "because"), [("absent", "mount.nfs: Connection timed out"), ("hangs", "mount gave no answer")]
)
def test_homes_that_do_not_come_are_said_in_time(node: Node, what: str, because: str) -> None:
    wrong(node, "nfs", what)
    done = run_step(node, "22-home", **IMPATIENT)
    assert done.returncode == 1
    assert last_line(done.stdout) == (
        f"/home is not mounted after 1 s ({because}); check the security group (111, 2049, 20001-20003) "
        "and DNS of fs-2.fsx.us-west-2.amazonaws.com"
    )


def test_homes_that_the_service_mounts_are_only_verified(node: Node) -> None:
    path = "/opt/ml/lifecycle/parameters.json"
    text = (node.root / path.lstrip("/")).read_text()
    changed = json.loads(text)
    changed["homes"]["mounted_by"] = "service"
    node.write(path, json.dumps(changed))
    try:
        done = run_step(node, "22-home", **IMPATIENT)
        assert done.returncode == 1
        assert "/home is not mounted after 1 s (HyperPod has not mounted it)" in last_line(done.stdout)
        assert not (node.root / "etc/fstab").exists()
        node.run("mount", "-t", "nfs", "fs-2:/fsx", "/home")
        assert run_step(node, "22-home", **IMPATIENT).returncode == 0
    finally:
        node.write(path, text)
