"""late_failure.py reports a success at once, and a failure after a delay or a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.program.program import LATE_FAILURE

# A delay that exceeds the timeout of each test.
LONG = "3600"


def started(seconds: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, str(LATE_FAILURE), seconds, *command], stderr=subprocess.PIPE, text=True)


def test_a_success_is_reported_at_once() -> None:
    assert started(LONG, "true").wait(300) == 0


def test_a_failure_is_reported_after_the_delay() -> None:
    assert started("0.1", "sh", "-c", "exit 7").wait(300) == 7
    assert started("0.1", "sh", "-c", "kill -9 $$").wait(300) == 128 + signal.SIGKILL


def test_a_signal_ends_the_delay(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    node = started(LONG, "sh", "-c", f"touch {ended}; exit 7")
    wait_for("the command has ended", ended.exists)
    with pytest.raises(subprocess.TimeoutExpired):
        node.wait(1)
    node.send_signal(signal.SIGTERM)
    assert node.wait(300) == 7


def test_the_command_gets_the_signal(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    node = started(LONG, "bash", "-c", f"trap 'exit 75' TERM; touch {runs}; while :; do sleep 0.1; done")
    wait_for("the command runs", runs.exists)
    node.send_signal(signal.SIGTERM)
    assert node.wait(300) == 75


def test_the_command_gets_a_signal_that_arrives_before_its_start() -> None:
    program = """
import os, signal, sys
from trainway.launch.node.passed_signals import PassedSignals

signals = PassedSignals()
os.kill(os.getpid(), signal.SIGTERM)
sys.exit(signals.run(["sleep", "3600"]))
"""
    node = subprocess.run([sys.executable, "-c", program], check=False, timeout=300)
    assert node.returncode == 128 + signal.SIGTERM


def test_a_command_that_does_not_exist_is_named() -> None:
    node = started(LONG, "./absent")
    assert node.wait(300) == 127
    assert node.stderr is not None and "./absent cannot start" in node.stderr.read()
