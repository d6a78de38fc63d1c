"""The nodes of the tests: what they ask of the world is seen, and nothing of them outlives the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lifecycle_scripts.nodes import CHECKOUT, missing, nodes
from tests.lifecycle_scripts.slurm_cluster import wait_for

WHY_NOT = missing()
pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=WHY_NOT or "")

ABANDONED = """
import sys, time
from pathlib import Path
from tests.lifecycle_scripts.nodes import nodes
with nodes(Path(sys.argv[1]), {"train": ["n1"]}) as lab:
    print(lab.gateway, lab["n1"].leader, flush=True)
    time.sleep(3600)
"""


def test_whatever_is_asked_of_the_world_is_seen_and_not_answered(tmp_path: Path) -> None:
    with nodes(tmp_path, {"train": ["n1", "n2"]}) as lab:
        node = lab["n1"]
        assert node.run("ssh-keyscan", "-T", "3", "n2").stdout
        assert lab.asked_outside() == []
        assert node.run("getent", "ahostsv4", "example.com", check=False).returncode
        connect = "exec 3<>/dev/tcp/192.0.2.1/443"
        assert node.run("timeout", "1", "bash", "-c", connect, check=False).returncode
        assert lab.asked_outside() == ["192.0.2.1", "example.com"]


def test_nodes_are_gone_with_the_process_that_booted_them(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ABANDONED, str(tmp_path / "lab")]
    with subprocess.Popen(command, cwd=CHECKOUT, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, stdout=-1) as test:
        assert test.stdout is not None
        pids = test.stdout.readline().split()
        assert len(pids) == 2 and all(Path("/proc", pid.decode()).exists() for pid in pids)
        test.kill()
    wait_for("the nodes are gone", lambda: not any(Path("/proc", pid.decode()).exists() for pid in pids))


def test_a_node_keeps_its_disk_when_its_power_is_cut(tmp_path: Path) -> None:
    with nodes(tmp_path, {"train": ["n1"]}) as lab:
        node = lab["n1"]
        before = node.snapshot(times=True)
        node.run("bash", "-c", "echo kept >/opt/kept; echo lost >/run/lost")
        node.cut_power()
        node.boot()
        assert node.run("cat", "/opt/kept").stdout == "kept\n"
        assert not node.run("cat", "/run/lost", check=False).stdout
        after = node.snapshot(times=True)
        assert {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)} == {"/opt/kept"}
