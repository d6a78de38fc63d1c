"""The entry points, run as HyperPod runs them, in a scratch root with stand-ins for mount and systemd."""

import configparser
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "lifecycle_scripts"

STAND_INS = {
    # The agent's address and the customer's, as `hostname -I` prints them.
    "hostname": '[[ "${1:-}" == -I ]] && echo "169.254.0.1 $ADDRESS" || echo node-1',
    "mountpoint": '[[ -e "$STATE/mounted" ]]',
    "mount": """echo "mount $*" >>"$STATE/calls"
case ${MOUNT:-works} in
  works) touch "$STATE/mounted" ;;
  slow) [[ -e "$STATE/tried" ]] && touch "$STATE/mounted"; touch "$STATE/tried"; [[ -e "$STATE/mounted" ]] ;;
  hangs) sleep 300 ;;
  *) echo "mount.lustre: No such file or directory: is the MGS specification correct?" >&2; exit 2 ;;
esac""",
    "systemctl": """echo "systemctl $*" >>"$STATE/calls"
case $1 in
  is-active) [[ -e "$STATE/active-${!#}" ]] ;;
  enable) [[ "${SYSTEMD:-works}" != works ]] || touch "$STATE/active-${!#}" ;;
  start)
    echo x >>"$STATE/starts"
    (($(wc -l <"$STATE/starts") > ${ACCOUNTING_COMES_AFTER:-0})) ;;
esac""",
}


@dataclass
class Node:
    """A HyperPod node: its own root, and what the stand-ins remember in `state`."""

    path: Path
    parameters: dict[str, Any]

    @property
    def root(self) -> Path:
        return self.path / "root"

    @property
    def calls(self) -> list[str]:
        path = self.path / "state" / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def is_active(self, daemon: str) -> None:
        """What HyperPod has done before OnInitComplete."""
        (self.path / "state" / f"active-{daemon}").touch()

    def is_mounted(self) -> None:
        """HyperPod has mounted the file system of the API."""
        (self.path / "state" / "mounted").touch()
        (self.root / "fsx").mkdir()

    def run(self, entry: str, address: str = "10.0.1.1", **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs an entry point the way HyperPod does, from the folder that it downloaded the scripts into."""
        (self.path / "scripts" / "parameters.json").write_text(json.dumps(self.parameters))
        environment = {
            "PATH": f"{self.path / 'bin'}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "STATE": str(self.path / "state"),
            "ADDRESS": address,
            "NODE_ROOT": str(self.root),
            "SAGEMAKER_RESOURCE_CONFIG_PATH": str(self.path / "resource_config.json"),
            "FAILURE_PAUSE_SECONDS": "0",
            "LUSTRE_RETRY_SECONDS": "0.1",
            "LUSTRE_WAIT_SECONDS": "1",
            "SLURM_WAIT_SECONDS": "1",
            **variables,
        }
        command = ["bash", str(self.path / "scripts" / entry)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    def snapshot(self) -> dict[str, str]:
        """Every file below the root but the log, with its content's hash."""
        return {
            path.relative_to(self.root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.root.rglob("*"))
            if path.is_file() and "var/log" not in path.as_posix()
        }


@pytest.fixture
def node(tmp_path: Path) -> Node:
    shutil.copytree(SCRIPTS, tmp_path / "scripts")
    for folder in ("root/proc/sys/vm", "state", "bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root/proc/sys/vm/nr_hugepages").write_text("0\n")
    for name, body in STAND_INS.items():
        path = tmp_path / "bin" / name
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)
    groups = {"controller": "10.0.0.10", "login": "10.0.0.20", "train": "10.0.1.1"}
    config = {
        "ClusterConfig": {"ClusterName": "atlas"},
        "InstanceGroups": [
            {"Name": name, "InstanceType": "ml.p5en.48xlarge", "Instances": [{"CustomerIpAddress": address}]}
            for name, address in groups.items()
        ],
    }
    (tmp_path / "resource_config.json").write_text(json.dumps(config))
    lustre = {
        "dns_name": "fs-1.fsx.us-west-2.amazonaws.com",
        "mount_name": "abc",
        "mount_path": "/fsx",
        "mounted_by": "service",
    }
    return Node(
        tmp_path,
        {
            "version": 1,
            "orchestrator": "hyperpod-slurm",
            "controller_group": "controller",
            "login_group": "login",
            "fsx": lustre,
            "huge_pages_2mib": 0,
        },
    )


@pytest.mark.parametrize(("address", "daemon"), [("10.0.0.10", "slurmctld"), ("10.0.1.1", "slurmd")])
def test_what_hyperpod_has_done_is_only_verified(node: Node, address: str, daemon: str):
    node.is_active(daemon)
    node.is_mounted()
    done = node.run("on_init_complete.sh", address)
    assert done.returncode == 0, done.stdout
    assert "/fsx is mounted and writable" in done.stdout
    assert set(node.calls) == {f"systemctl is-active --quiet {daemon}"}
    assert "[finished]" in done.stdout


def test_a_daemon_that_hyperpod_did_not_start_is_reported_and_not_started(node: Node):
    node.is_mounted()
    done = node.run("on_init_complete.sh")
    assert done.returncode == 1
    assert "slurmd is not active after 1 s" in done.stdout
    assert not [call for call in node.calls if "enable" in call]


@pytest.mark.parametrize(("address", "daemon"), [("10.0.0.10", "slurmctld"), ("10.0.1.1", "slurmd")])
def test_on_create_mounts_and_starts_the_daemon_of_the_role(node: Node, address: str, daemon: str):
    node.parameters["fsx"]["mounted_by"] = "script"
    done = node.run("on_create.sh", address)
    assert done.returncode == 0, done.stdout
    assert (
        "mount -t lustre -o noatime,flock fs-1.fsx.us-west-2.amazonaws.com@tcp:/abc " + f"{node.root}/fsx" in node.calls
    )
    assert f"systemctl enable --now {daemon}" in node.calls
    drop_in = node.root / "etc/systemd/system/slurmd.service.d/90-trainway.conf"
    assert drop_in.exists() == (daemon == "slurmd")
    if daemon == "slurmd":
        assert "--conf-server 10.0.0.10" in drop_in.read_text()


def test_a_login_node_runs_no_daemon(node: Node):
    node.parameters["fsx"] = None
    done = node.run("on_create.sh", "10.0.0.20")
    assert done.returncode == 0, done.stdout
    assert "a login node runs no Slurm daemon" in done.stdout


def test_a_kubernetes_node_gets_limits_and_neither_mount_nor_slurm(node: Node):
    node.parameters |= {"orchestrator": "hyperpod-eks", "controller_group": None, "login_group": None, "fsx": None}
    done = node.run("on_create.sh")
    assert done.returncode == 0, done.stdout
    assert node.calls == []
    assert "memlock unlimited" in (node.root / "etc/security/limits.d/90-trainway.conf").read_text()


def test_a_second_run_changes_nothing(node: Node):
    node.parameters["fsx"]["mounted_by"] = "script"
    node.parameters["huge_pages_2mib"] = 5128
    assert node.run("on_create.sh").returncode == 0
    before, calls = node.snapshot(), node.calls
    assert node.run("on_create.sh").returncode == 0
    assert node.snapshot() == before
    assert {call.split()[1] for call in node.calls[len(calls) :]} == {"is-active"}


@pytest.fixture
def controller(node: Node) -> Node:
    """One whose teams are kept in S3."""
    uri = "s3://data/lifecycle_scripts/slurm-accounts.json"
    node.parameters |= {"fsx": None, "slurm_accounts": {"s3_uri": uri, "region": "us-west-2"}}
    node.is_active("slurmctld")
    return node


def test_a_controller_puts_the_teams_in_force_and_follows_them(controller: Node):
    done = controller.run("on_init_complete.sh", "10.0.0.10", ACCOUNTING_COMES_AFTER="2", ACCOUNTS_RETRY_SECONDS="0")
    assert done.returncode == 0, done.stdout
    assert controller.calls[1:] == [
        "systemctl daemon-reload",
        *["systemctl start trainway-accounts.service"] * 3,
        "systemctl enable --now trainway-accounts.timer",
    ]
    units = configparser.ConfigParser(delimiters="=", strict=True)
    for kind in ("service", "timer"):
        assert units.read(controller.root / f"etc/systemd/system/trainway-accounts.{kind}")
    command = units["Service"]["ExecStart"].split()
    assert command[3:] == ["s3://data/lifecycle_scripts/slurm-accounts.json", "us-west-2"]
    installed = controller.root / command[2].lstrip("/")
    assert installed.read_text() == (SCRIPTS / "slurm_accounts.sh").read_text()
    assert (installed.parent / "slurm_accounts.py").exists()
    assert units["Timer"]["OnUnitInactiveSec"] == "2min"


def test_a_controller_without_accounting_does_not_pass_for_one_whose_teams_are_in_force(controller: Node):
    done = controller.run("on_init_complete.sh", "10.0.0.10", ACCOUNTING_COMES_AFTER="99", ACCOUNTS_WAIT_SECONDS="0")
    assert done.returncode == 1
    assert "the teams are not in force after 0 s; `journalctl -u trainway-accounts`" in done.stdout
    assert not [call for call in controller.calls if "enable" in call]


@pytest.mark.parametrize("address", ["10.0.0.20", "10.0.1.1"])
def test_only_a_controller_keeps_accounts(controller: Node, address: str):
    controller.is_active("slurmd")
    done = controller.run("on_init_complete.sh", address)
    assert done.returncode == 0, done.stdout
    assert "no accounts are kept here" in done.stdout
    assert not list(controller.root.rglob("trainway-accounts.*"))


def test_a_file_system_that_comes_late_is_waited_for(node: Node):
    node.parameters["fsx"]["mounted_by"] = "script"
    done = node.run("on_create.sh", MOUNT="slow", LUSTRE_WAIT_SECONDS="20")
    assert done.returncode == 0, done.stdout
    assert len([call for call in node.calls if call.startswith("mount ")]) == 2


@pytest.mark.parametrize(
    ("mounted_by", "message"),
    [("script", "is the MGS specification correct?"), ("service", "HyperPod has not mounted it")],
)
def test_an_absent_file_system_ends_in_one_line_within_its_limit(node: Node, mounted_by: str, message: str):
    node.parameters["fsx"]["mounted_by"] = mounted_by
    started = time.monotonic()
    done = node.run("on_create.sh", MOUNT="absent")
    assert time.monotonic() - started < 15
    assert done.returncode == 1
    line = next(line for line in done.stdout.splitlines() if "is not mounted after 1 s" in line)
    assert message in line
    assert "988, 1018-1023" in line
    assert "[20-lustre]" in done.stdout.splitlines()[-1]
    assert "FAILED" in done.stdout.splitlines()[-1]


def test_a_file_system_that_cannot_be_written_is_not_taken_for_a_good_one(node: Node):
    node.is_mounted()
    (node.root / "fsx").rmdir()
    (node.root / "fsx").write_text("not a directory")
    done = node.run("on_init_complete.sh")
    assert done.returncode == 1
    assert "/fsx is mounted but cannot be written within 60 s" in done.stdout


def test_a_step_that_hangs_is_ended_at_its_limit(node: Node):
    node.parameters["fsx"]["mounted_by"] = "script"
    started = time.monotonic()
    done = node.run("on_create.sh", MOUNT="hangs", STEP_TIMEOUT_SECONDS="2")
    assert time.monotonic() - started < 20
    assert done.returncode == 1
    assert "[20-lustre]" in done.stdout.splitlines()[-1]
    assert "ran past its limit of 2 seconds" in done.stdout.splitlines()[-1]


def test_huge_pages_are_never_lowered(node: Node):
    node.parameters |= {"fsx": None, "huge_pages_2mib": 128}
    pages = node.root / "proc/sys/vm/nr_hugepages"
    pages.write_text("5128\n")
    node.is_active("slurmd")
    assert node.run("on_init_complete.sh").returncode == 0
    assert pages.read_text() == "5128\n"


def test_a_node_that_is_not_in_the_resource_config_stops_before_any_step(node: Node):
    done = node.run("on_create.sh", "10.9.9.9")
    assert done.returncode == 1
    assert "0 instances have one of this node's addresses (10.9.9.9, 169.254.0.1)" in done.stdout
    assert node.snapshot() == {"proc/sys/vm/nr_hugepages": hashlib.sha256(b"0\n").hexdigest()}


def test_every_line_begins_with_its_step_and_is_kept_on_the_node(node: Node):
    node.is_active("slurmd")
    node.is_mounted()
    done = node.run("on_init_complete.sh")
    assert all(re.match(r"\[[a-z0-9-]+\] ", line) for line in done.stdout.splitlines())
    assert (node.root / "var/log/provision/provisioning.log").read_text() == done.stdout


def test_nothing_is_fetched_from_the_internet():
    commands = re.compile(r"\b(curl|wget|git|pip|apt|apt-get|yum|dnf|docker)\b")
    for path in SCRIPTS.rglob("*.sh"):
        code = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        assert not [line for line in code if commands.search(line) or "http" in line], path


def test_a_file_system_that_root_may_not_write_to_is_mounted_all_the_same(node: Node) -> None:
    """Under root squash the servers' refusal shows that they are there; that they all are, what is free on them."""
    node.is_active("slurmd")
    node.is_mounted()
    refuses = '[[ "$*" != *"echo written"* ]] || { echo "bash: /fsx/.probe: Permission denied" >&2; exit 1; }'
    otherwise = 'exec /usr/bin/timeout "$@"'
    stand_in = node.path / "bin" / "timeout"
    stand_in.write_text(f"#!/usr/bin/env bash\n{refuses}\n{otherwise}\n")
    stand_in.chmod(0o755)
    done = node.run("on_init_complete.sh")
    assert done.returncode == 0, done.stdout
    assert "/fsx is mounted, and root may not write to it" in done.stdout
