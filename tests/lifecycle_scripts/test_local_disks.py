"""A node's own disks become one file system that each start finds or makes again; nobody's data is formatted.

The disks are loop devices, and mkfs and mount are real; this kernel need not have RAID, so that mdadm is a stand-in,
whose array is another loop device.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.lifecycle_scripts.nodes import SCRIPTS, Lab, Node, missing, nodes
from tests.lifecycle_scripts.steps import run_step

NEEDED = ("losetup", "mkfs.ext4", "mkswap", "nsenter", "unshare", "wipefs")
PLACE = "opt/dlami/nvme"
INSTANCE, VOLUME = "Amazon EC2 NVMe Instance Storage", "Amazon Elastic Block Store"

# A partition table of one partition of Linux's.
PARTITIONED = """import sys
with open(sys.argv[1], "r+b") as disk:
    disk.seek(446)
    disk.write(bytes([0, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little"))
    disk.seek(510)
    disk.write(bytes([0x55, 0xAA]))
"""

STAND_INS = {
    # No unit of the image's.
    "systemctl": "exit 1",
    # A member is told by its label, as one of a real array; what is not an ext4 file system is one here.
    "mdadm": """echo "mdadm $*" >>"$STATE/calls"
for last; do [[ "$last" != */dev/md/* ]] || array=$last; done
case $1 in
  --create)
    for member; do
      [[ "$member" == */dev/nvme* ]] || continue
      mkswap --force --label trainway-local "$member" >/dev/null
      [[ -z "${KILLED:-}" ]] || { kill -9 "$PPID"; exit 1; }
    done
    ln -sf "$ARRAY" "$array" ;;
  --assemble) [[ -z "${KILLED_BEFORE:-}" ]] && ln -sf "$ARRAY" "$array" ;;
  --zero-superblock) wipefs --all --quiet "${@:2}" ;;
esac""",
}


def can_not() -> str | None:
    """Why no disks can be made here; None if they can. Continuous integration skips nothing."""
    if "CI" in os.environ:
        return None
    if os.geteuid():
        return "only root may make loop devices"
    absent = [program for program in NEEDED if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


class Disks:
    """A root with the disks of a node, and a mount namespace, which all that is mounted goes with."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        self.path, self.root, self.stack = path, path / "root", stack
        for folder in ("root/sys/block", "root/dev/md", "state", "bin"):
            (path / folder).mkdir(parents=True)
        for name, body in STAND_INS.items():
            program = path / "bin" / name
            program.write_text(f"#!/usr/bin/env bash\n{body}\n")
            program.chmod(0o755)
        self.namespace = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private", "sleep", "300"]
        )
        stack.callback(self.namespace.wait)
        stack.callback(self.namespace.kill)
        # Entered once it is there: until then it is this process's.
        while Path(f"/proc/{self.namespace.pid}/ns/mnt").readlink() == Path("/proc/self/ns/mnt").readlink():
            time.sleep(0.01)
        self.array = self.loop("array", 64)

    def loop(self, name: str, megabytes: int) -> str:
        image = self.path / f"{name}.img"
        with image.open("wb") as file:
            file.truncate(megabytes << 20)
        command = ["losetup", "--find", "--show", str(image)]
        device = subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
        self.stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        return device

    def add(self, name: str, model: str = INSTANCE, megabytes: int = 32) -> str:
        """A disk as the kernel shows it."""
        device = self.loop(name, megabytes)
        (self.root / "dev" / name).symlink_to(device)
        about = self.root / "sys/block" / name / "device"
        about.mkdir(parents=True)
        # sysfs pads it.
        (about / "model").write_text(f"{model:40}\n")
        return device

    def within(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin{os.pathsep}/sbin",
            "NODE_ROOT": str(self.root),
            "STATE": str(self.path / "state"),
            "ARRAY": self.array,
            **environment,
        }
        entered = ["nsenter", f"--mount=/proc/{self.namespace.pid}/ns/mnt", "--", *command]
        return subprocess.run(entered, env=variables, capture_output=True, text=True, timeout=60)

    def run(self, **environment: str) -> subprocess.CompletedProcess[str]:
        done = self.within("bash", str(SCRIPTS / "local_disks.sh"), **environment)
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout + done.stderr)

    def write(self, name: str, text: str) -> None:
        self.within("sh", "-c", f"echo {text} >{self.root / PLACE / name}")

    def read(self, name: str) -> str:
        return self.within("cat", str(self.root / PLACE / name)).stdout

    def mounted(self) -> str:
        """Type and source of what is mounted at the place."""
        return self.within("findmnt", "-no", "FSTYPE,SOURCE", "--mountpoint", str(self.root / PLACE)).stdout.strip()

    def restart(self) -> None:
        """The node is stopped hard; disks keep what they have."""
        self.within("umount", str(self.root / PLACE))
        for array in (self.root / "dev/md").iterdir():
            array.unlink()

    def stop_and_start(self, *devices: str) -> None:
        """Disks of an instance come back empty."""
        self.restart()
        for device in devices:
            subprocess.run(["wipefs", "--all", "--quiet", device], check=True)

    @property
    def calls(self) -> list[str]:
        path = self.path / "state" / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    with ExitStack() as stack:
        yield Disks(tmp_path, stack)


on_loop_devices = pytest.mark.skipif(can_not() is not None, reason=str(can_not()))


@on_loop_devices
def test_one_disk_becomes_a_file_system_and_is_found_again(disks: Disks) -> None:
    device = disks.add("nvme1n1")
    disks.add("nvme0n1", VOLUME)
    done = disks.run()
    assert done.returncode == 0, done.stdout
    assert disks.mounted().split() == ["ext4", device]
    disks.write("jobs/state", "kept")
    again = disks.run()
    assert again.stdout.startswith("/opt/dlami/nvme is there, with ")
    assert len(again.stdout.splitlines()) == 1
    disks.restart()
    done = disks.run()
    assert (done.returncode, disks.read("jobs/state")) == (0, "kept\n"), done.stdout
    assert "made" not in done.stdout
    disks.stop_and_start(device)
    done = disks.run()
    assert (done.returncode, disks.read("jobs/state")) == (0, ""), done.stdout
    assert "made a file system on " in done.stdout
    assert disks.calls == []


@on_loop_devices
def test_directories_for_all_have_the_modes_for_it(disks: Disks) -> None:
    disks.add("nvme1n1")
    assert disks.run().returncode == 0
    listed = disks.within("find", str(disks.root / PLACE), "-type", "d", "-printf", "%P %m\n").stdout
    modes = dict(line.rsplit(" ", 1) for line in listed.splitlines())
    assert {name: mode for name, mode in modes.items() if name != "lost+found"} == {
        "": "1777",
        "containerd": "711",
        "docker": "711",
        "enroot": "711",
        "enroot/cache": "1777",
        "enroot/data": "1777",
        "enroot/tmp": "1777",
        "jobs": "1777",
        "tmp": "1777",
    }


@on_loop_devices
def test_several_disks_become_a_raid_which_is_put_together_again(disks: Disks) -> None:
    names = [f"nvme{number}n1" for number in (1, 2, 3)]
    for name in names:
        disks.add(name)
    assert disks.run().returncode == 0
    members = " ".join(str(disks.root / "dev" / name) for name in names)
    array = disks.root / "dev/md/trainway-local"
    create = f"mdadm --create {array} --run --level=0 --name=trainway-local --homehost=any --raid-devices=3 {members}"
    assert disks.calls == [create]
    assert disks.mounted().split() == ["ext4", disks.array]
    disks.write("jobs/state", "kept")
    disks.restart()
    assert disks.run().returncode == 0
    assert disks.calls[1:] == [f"mdadm --assemble --run {array} {members}"]
    assert disks.read("jobs/state") == "kept\n"


@on_loop_devices
def test_a_raid_whose_making_was_cut_short_is_made_again(disks: Disks) -> None:
    for name in ("nvme1n1", "nvme2n1"):
        disks.add(name)
    assert disks.run(KILLED="yes").returncode != 0
    done = disks.run(KILLED_BEFORE="yes")
    assert done.returncode == 0, done.stdout
    assert [call.split()[1] for call in disks.calls] == ["--create", "--assemble", "--zero-superblock", "--create"]
    assert disks.mounted().startswith("ext4")


@on_loop_devices
# Two disks have an array below what one disk has.
@pytest.mark.parametrize("count", [pytest.param(1, marks=pytest.mark.exhaustive), 2])
def test_a_run_that_is_killed_anywhere_is_made_good_by_the_next(disks: Disks, count: int) -> None:
    devices = [disks.add(f"nvme{number}n1") for number in range(1, count + 1)]
    environment = {"BASH_ENV": str(disks.path / "killed"), "KILLED_AT": "0"}
    # Before every command the script counts, and at one of them it ends as by a cut of power.
    killed = "SCRIPT=$$; set -T; trap '[[ $BASHPID != \"$SCRIPT\" ]] || ((++COMMAND != KILLED_AT)) || kill -9 $$' DEBUG"
    (disks.path / "killed").write_text(f'[[ "$0" != */local_disks.sh ]] || {{ {killed}; }}\n')
    times = 0
    for number in range(1, 400, 5):
        done = disks.run(**environment | {"KILLED_AT": str(number)})
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stdout
        times += 1
        done = disks.run()
        assert (done.returncode, disks.mounted().split()[0]) == (0, "ext4"), (number, done.stdout)
        disks.stop_and_start(*devices, disks.array)
    assert times > 5


@on_loop_devices
def test_a_raid_that_lost_a_disk_is_not_made_anew_over_its_data(disks: Disks) -> None:
    for name in ("nvme1n1", "nvme2n1"):
        disks.add(name)
    assert disks.run().returncode == 0
    disks.restart()
    shutil.rmtree(disks.root / "sys/block/nvme2n1")
    done = disks.run(KILLED_BEFORE="yes")
    assert done.returncode == 1
    assert "cannot be put together: stop and start the node for blank disks" in done.stdout.splitlines()[-1]


@on_loop_devices
@pytest.mark.parametrize(
    "make",
    [["mkfs.ext4", "-q", "-L", "precious"], ["mkswap"], [sys.executable, "-c", PARTITIONED]],
    ids=["file system", "swap", "partitions"],
)
def test_a_disk_with_something_of_somebodys_is_left_alone(disks: Disks, make: list[str]) -> None:
    device = disks.add("nvme1n1")
    subprocess.run([*make, device], check=True, capture_output=True)
    before = Path(disks.path / "nvme1n1.img").read_bytes()
    done = disks.run()
    assert done.returncode == 0, done.stdout
    assert "/dev/nvme1n1 is left as it is: it carries " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("none of 1 NVMe disks can be used")
    assert Path(disks.path / "nvme1n1.img").read_bytes() == before
    # The others are used.
    other = disks.add("nvme2n1")
    assert disks.run().returncode == 0
    assert disks.mounted().split() == ["ext4", other]


@on_loop_devices
def test_an_image_without_mdadm_does_without_its_disks(disks: Disks) -> None:
    absent = disks.path / "absent"
    absent.write_text('command() { [[ "$2" != mdadm ]] && builtin command "$@"; }\n')
    for name in ("nvme1n1", "nvme2n1"):
        disks.add(name)
    done = disks.run(BASH_ENV=str(absent))
    assert done.returncode == 0
    assert "this image has no mdadm to make one file system of 2 disks" in done.stdout
    assert disks.mounted() == ""


@on_loop_devices
def test_volumes_are_no_disks_of_the_instance(disks: Disks) -> None:
    disks.add("nvme0n1", VOLUME)
    done = disks.run()
    assert (done.returncode, done.stdout) == (0, "this instance has no NVMe disks of its own, nothing to do\n")


@on_loop_devices
def test_a_broken_disk_ends_in_one_line_that_says_so(disks: Disks) -> None:
    device = disks.add("nvme1n1")
    subprocess.run(["blockdev", "--setro", device], check=True)
    try:
        done = disks.run()
    finally:
        # The kernel keeps it for whoever has the device next.
        subprocess.run(["blockdev", "--setrw", device], check=True)
    assert done.returncode == 1
    line = done.stdout.splitlines()[-1]
    assert "no file system could be made on " in line and "the disk may be broken, replace the node" in line


IMAGES_SERVICE = """[Unit]
Description=As the image has it
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh -c 'mkdir -p /opt/dlami/nvme && sleep 1 && mount -t tmpfs nvme /opt/dlami/nvme'
[Install]
WantedBy=multi-user.target
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with nodes(tmp_path_factory.mktemp("lab"), {"controller": ["ctl"]}) as made:
        yield made


@pytest.mark.exhaustive
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_what_the_images_service_mounts_is_used_at_each_start(lab: Lab) -> None:
    node: Node = lab["ctl"]
    done = run_step(node, "14-local-disks")
    assert (done.returncode, done.stdout) == (0, "this instance has no NVMe disks of its own, nothing to do\n")
    node.write("/etc/systemd/system/dlami-nvme.service", IMAGES_SERVICE)
    node.run("systemctl", "daemon-reload")
    # It is under way when the step begins, or has yet to begin.
    done = run_step(node, "14-local-disks")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("/opt/dlami/nvme is there, with ")
    before = node.snapshot(times=True)
    assert run_step(node, "14-local-disks").returncode == 0
    assert node.snapshot(times=True) == before
    node.run("systemctl", "--quiet", "enable", "dlami-nvme.service")
    node.cut_power()
    node.boot()
    # Empty after the stop, and with its directories before anything that uses them.
    assert node.run("stat", "--format=%a", "/opt/dlami/nvme/enroot/data").stdout == "1777\n"
    order = node.run("systemctl", "show", "--property=Before", "trainway-local-disks.service").stdout
    assert "docker.service" in order and "slurmd.service" in order


def test_checkpoints_of_runs_that_never_resumed_go_away_after_a_week(tmp_path: Path) -> None:
    if shutil.which("systemd-tmpfiles") is None or os.geteuid():
        pytest.skip("systemd-tmpfiles deletes files only as root")
    step = (SCRIPTS / "steps/14-local-disks.sh").read_text()
    (tmp_path / "disks.conf").write_text(step.partition("<<'TMPFILES'\n")[2].partition("TMPFILES\n")[0])
    jobs = tmp_path / "root/opt/dlami/nvme/jobs"
    files = [jobs / name / "part" for name in ("trainway-1000/job/forgotten", "mine", "trainway-1001/job/recent")]
    victim = tmp_path / "root/home/ada/part"
    for file in (*files, victim):
        file.parent.mkdir(parents=True)
        file.write_text("content")
        os.chown(file, 1000, 1000)
    (jobs / "trainway-1002").symlink_to(victim.parent)
    # No program sets the time at which the state of a file changed, so here the age is that of the content alone.
    # systemd 249 of Ubuntu 22.04 does not know these letters.
    conf = (tmp_path / "disks.conf").read_text()
    assert conf.endswith(" 7d\n")
    (tmp_path / "disks.conf").write_text(conf.replace(" 7d", " mM:7d"))
    for file, days in zip((*files, victim), (8, 8, 6, 8), strict=True):
        os.utime(file, (time.time() - days * 86400,) * 2)
    done = subprocess.run(
        ["systemd-tmpfiles", "--clean", f"--root={tmp_path / 'root'}", str(tmp_path / "disks.conf")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert [file.exists() for file in (*files, victim)] == [False, True, True, True], done.stderr


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_a_service_of_the_image_that_fails_is_named_and_does_not_stop_the_node(lab: Lab) -> None:
    node = lab["ctl"]
    node.run("umount", "/opt/dlami/nvme", check=False)
    node.write("/etc/systemd/system/dlami-nvme.service", IMAGES_SERVICE.replace("mkdir -p", "false; exit 1; echo"))
    node.run("systemctl", "stop", "dlami-nvme.service")
    node.run("systemctl", "daemon-reload")
    done = run_step(node, "14-local-disks")
    assert done.returncode == 0
    assert "the image's dlami-nvme.service failed or is not done after 120 s" in done.stdout
    node.run("systemctl", "reset-failed")
