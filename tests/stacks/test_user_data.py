"""What the user data of training nodes does when a node boots."""

from __future__ import annotations

import email
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.lifecycle_scripts.nodes import Lab, Node, nodes
from tests.synthesis import ROOT, all_resources, templates_of

# As nodeadm restarts its daemons: over D-Bus, without a reload of systemd's units.
# https://github.com/awslabs/amazon-eks-ami/blob/v20260724/nodeadm/internal/daemon/systemd.go (read 2026-11-22)
MANAGER = ("org.freedesktop.systemd1", "/org/freedesktop/systemd1", "org.freedesktop.systemd1.Manager")
RESTART = ("busctl", "call", *MANAGER, "RestartUnit", "ss", "containerd.service", "replace")
CONTAINERD = "[Service]\nType=exec\nExecStart=/usr/local/bin/containerd infinity\n"


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with nodes(tmp_path_factory.mktemp("lab"), {"train": ["n1"]}) as made:
        made["n1"].run("cp", "/bin/sleep", "/usr/local/bin/containerd")
        yield made


@pytest.fixture(scope="module")
def launched() -> dict[str, dict[str, Any]]:
    """Return the launch templates of two examples by the example and the name of their nodes."""
    found = {}
    for example in ("eks-p5", "hyperpod-eks-p5"):
        stacks = templates_of(ROOT / "examples" / f"{example}.yaml")
        for template in all_resources(stacks, "AWS::EC2::LaunchTemplate").values():
            data = template["LaunchTemplateData"]
            name = data["TagSpecifications"][0]["Tags"][0]["Value"].split("/")[1]
            found[f"{example}/{name}"] = data
    return found


def scripts(launched: dict[str, Any]) -> list[str]:
    """Return the shell scripts of a launch template's user data, in the order in which cloud-init runs them."""
    parts = email.message_from_string(launched["UserData"]["Fn::Base64"]).walk()
    return [str(part.get_payload()) for part in parts if part.get_content_type() == "text/x-shellscript"]


def locked_memory(node: Node) -> tuple[str, str]:
    """Return the soft and the hard limit of containerd, from which containers inherit theirs."""
    process = node.run("systemctl", "show", "--value", "--property=MainPID", "containerd").stdout.strip()
    limits = node.run("prlimit", "--pid", process, "--memlock", "--noheadings", "--raw", "--output", "SOFT,HARD")
    soft, hard = limits.stdout.split()
    return soft, hard


@pytest.mark.parametrize("already_running", [False, True], ids=["containerd was not started", "containerd ran before"])
def test_containers_may_lock_all_memory_however_containerd_was_started(
    lab: Lab, launched: dict[str, Any], already_running: bool
) -> None:
    node = lab["n1"]
    shutil.rmtree(node.root / "etc/systemd/system/containerd.service.d", ignore_errors=True)
    node.write("/etc/systemd/system/containerd.service", CONTAINERD)
    node.run("systemctl", "daemon-reload")
    node.run("systemctl", "start" if already_running else "stop", "containerd")
    default = node.run("systemctl", "show", "--value", "--property=LimitMEMLOCK", "containerd").stdout.strip()
    assert default != "infinity"
    (script,) = (each for each in scripts(launched["eks-p5/train"]) if "lustre" not in each)
    node.write("/var/lib/cloud/part-001", script, mode=0o755)
    node.run("/var/lib/cloud/part-001")
    node.run(*RESTART)
    wanted = node.run("systemctl", "show", "--value", "--property=LimitMEMLOCK", "containerd").stdout.strip()
    assert wanted == "infinity"
    # The kernel of a test machine may allow less than infinity: the soft limit is then as high as the hard limit.
    # RESTART does not wait, and `is-active --wait` came after Debian 12's systemd.
    node.run("timeout", "300", "bash", "-c", "until systemctl is-active --quiet containerd; do sleep 0.1; done")
    soft, hard = locked_memory(node)
    assert soft == hard


def test_every_training_node_raises_the_limit_and_no_system_node_does(launched: dict[str, Any]) -> None:
    raises = {name: any("LimitMEMLOCK=infinity" in each for each in scripts(data)) for name, data in launched.items()}
    assert raises == {name: not name.endswith("/system") for name in launched}
    assert len(raises) == 4
