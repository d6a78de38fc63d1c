"""A node's Lustre learns to speak EFA, with stand-ins for the kernel and LNet."""

from __future__ import annotations

import email
import os
import subprocess
from pathlib import Path

from tests.synthesis import ROOT, resources, templates_of

SCRIPT = Path(__file__).resolve().parents[2] / "lifecycle_scripts" / "lustre_efa.sh"

STAND_INS = {
    "modinfo": '[[ "$1" == kefalnd && -z "${NO_KEFALND:-}" ]]',
    "modprobe": 'echo "modprobe $*" >>"$STATE/calls"',
    "systemctl": """echo "systemctl $*" >>"$STATE/calls"
case $1 in
  is-enabled) [[ -e "$STATE/enabled" ]] ;;
  enable) touch "$STATE/enabled" ;;
esac""",
    "ip": 'echo "default via 10.0.0.1 dev ens32 proto dhcp"',
    # What was added is shown, as LNet does.
    "lnetctl": """case "$1 $2" in
  "net show") cat "$STATE/nets" 2>/dev/null ;;
  "udsp show") cat "$STATE/udsp" 2>/dev/null ;;
  *) echo "lnetctl $*" >>"$STATE/calls" ;;
esac
case "$*" in
  "net add --net efa"*) echo "interfaces: $6" >>"$STATE/nets" ;;
  "udsp add"*) echo "src: efa" >>"$STATE/udsp" ;;
esac""",
}


class Node:
    """A node with EFA devices, whose root is a scratch directory."""

    def __init__(self, path: Path, devices: int) -> None:
        self.path, self.root = path, path / "root"
        for folder in (
            "bin",
            "state",
            "root/proc",
            "root/sys/class/infiniband",
            "root/drivers/efa",
            "root/drivers/mlx5",
        ):
            (path / folder).mkdir(parents=True)
        for number in range(devices):
            self._device(f"rdmap{number:02d}s0", "efa")
        self._device("mlx5_0", "mlx5")
        for name, body in STAND_INS.items():
            (path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
            (path / "bin" / name).chmod(0o755)

    def _device(self, name: str, driver: str) -> None:
        device = self.root / "sys/class/infiniband" / name / "device"
        device.mkdir(parents=True)
        (device / "driver").symlink_to(self.root / "drivers" / driver)

    @property
    def calls(self) -> list[str]:
        file = self.path / "state" / "calls"
        return file.read_text().splitlines() if file.exists() else []

    @property
    def added(self) -> list[str]:
        return [call.split()[6] for call in self.calls if call.startswith("lnetctl net add --net efa")]

    def run(self, interfaces: int, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.path / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "STATE": str(self.path / "state"),
            "NODE_ROOT": str(self.root),
            **variables,
        }
        command = ["bash", str(SCRIPT), str(interfaces)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def test_interfaces_are_spread_over_all_efa_devices_and_no_others(tmp_path: Path) -> None:
    """As AWS does it on a P5 node: every fourth of its 32, one a PCIe bus."""
    node = Node(tmp_path, devices=32)
    done = node.run(8)
    assert done.returncode == 0, done.stderr
    assert node.added == [f"rdmap{number:02d}s0" for number in range(0, 32, 4)]
    assert "Lustre uses 8 of 32 EFA devices" in done.stdout


def test_tcp_is_bound_to_the_interface_that_leads_outward_before_anything_is_mounted(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=1)
    node.run(1)
    assert "modprobe kefalnd ipif_name=ens32" in node.calls
    assert node.calls.index("lnetctl net del --net tcp") < node.calls.index("lnetctl net add --net tcp --if ens32")
    assert node.calls[-1] == "lnetctl udsp add --src efa --priority 0"


def test_what_is_mounted_already_keeps_its_tcp(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=2)
    (node.root / "proc/mounts").write_text("10.0.0.5@tcp:/abc /fsx lustre rw,flock 0 0\n")
    assert node.run(2).returncode == 0
    assert not [call for call in node.calls if "--net tcp" in call]
    assert len(node.added) == 2


def test_a_second_run_adds_and_changes_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    node.run(2)
    before, files = node.added, [path for path in node.root.rglob("trainway*/*") if path.is_file()]
    files += list(node.root.rglob("trainway-lustre-efa.service"))
    times = {path: path.stat().st_mtime_ns for path in files}
    assert len(times) == 2
    assert node.run(2).returncode == 0
    assert node.added == before
    assert {path: path.stat().st_mtime_ns for path in files} == times
    assert [call for call in node.calls if "enable " in call or "reload" in call] == [
        "systemctl daemon-reload",
        "systemctl enable trainway-lustre-efa.service",
    ]
    assert sum(call.startswith("lnetctl udsp add") for call in node.calls) == 1


def test_a_restarted_node_runs_it_again(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    node.run(2)
    installed = node.root / "opt/trainway/lustre_efa.sh"
    assert installed.read_text() == SCRIPT.read_text()
    unit = (node.root / "etc/systemd/system/trainway-lustre-efa.service").read_text()
    assert "ExecStart=/usr/bin/env bash /opt/trainway/lustre_efa.sh 2\n" in unit
    assert "systemctl enable trainway-lustre-efa.service" in node.calls


def test_a_client_without_efa_is_said_and_stays_with_tcp(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=4)
    done = node.run(2, NO_KEFALND="1")
    assert done.returncode == 0
    assert "reached over TCP" in done.stdout
    assert node.calls == []


def test_fewer_devices_than_planned_is_a_failure(tmp_path: Path) -> None:
    node = Node(tmp_path, devices=1)
    done = node.run(2)
    assert done.returncode == 1
    assert "1 EFA devices, and 2 were" in done.stdout


def test_a_node_of_eks_fetches_it_when_it_boots(tmp_path: Path) -> None:
    stacks = templates_of(ROOT / "examples" / "eks-p5.yaml")
    (parameter,) = resources(stacks["control-plane"], "AWS::SSM::Parameter").values()
    assert parameter["Value"] == SCRIPT.read_text(encoding="utf-8")
    launched = resources(stacks["cluster"], "AWS::EC2::LaunchTemplate").values()
    documents = [each["LaunchTemplateData"]["UserData"]["Fn::Base64"] for each in launched]
    parts = [list(email.message_from_string(text).walk()) for text in documents if isinstance(text, str)]
    scripts = [part for each in parts for part in each if part.get_content_type() == "text/x-shellscript"]
    (text,) = [text for part in scripts if "lnetctl" in (text := str(part.get_payload()))]
    assert all("application/node.eks.aws" in {part.get_content_type() for part in each} for each in parts)
    node = Node(tmp_path, devices=32)
    script = tmp_path / "part-001"
    script.write_text(text)
    # The AWS CLI, which fails once.
    (tmp_path / "value").write_text(parameter["Value"], encoding="utf-8")
    asked = f"ssm get-parameter --region us-west-2 --name {parameter['Name']} --query Parameter.Value --output text"
    for name, lines in {
        "aws": f"""[[ "$*" == "{asked}" ]] || exit 255
mkdir "$STATE/throttled" 2>/dev/null && exit 254
cat "{tmp_path}/value"; echo""",
        "sleep": ":",
    }.items():
        command = node.path / "bin" / name
        command.write_text(f"#!/usr/bin/env bash\n{lines}\n")
        command.chmod(0o755)
    environment = {
        "PATH": f"{node.path / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "STATE": str(node.path / "state"),
        "NODE_ROOT": str(node.root),
    }
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(node.added) == 8
    installed = node.root / "opt/trainway/lustre_efa.sh"
    assert installed.read_text().rstrip() == parameter["Value"].rstrip(), "for the next start"
