"""A local job runs to its end when its output is closed, and stops when its launcher is killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from trainway.launch.local import watch
from trainway.launch.runs.run_directory import read_launch, record_submission, write_launch
from trainway.launch.target.protocol import Phase

# Waits until its output is closed, writes more than a pipe can hold, and then creates the file `done`.
PROGRAM = """
import pathlib, sys, time
print("first", flush=True)
while not pathlib.Path("unread").exists():
    time.sleep(0.05)
for number in range(5000):
    print(f"line {number} of the output", flush=True)
    print(f"line {number} of the errors", file=sys.stderr, flush=True)
pathlib.Path("done").touch()
"""
STOPPABLE = """
import pathlib, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path("stopped").touch()))
print("begun", flush=True)
signal.pause()
"""
# Starts torchrun as `trainway launch` does for the training job.
TORCHRUN = """
import sys
from pathlib import Path
from trainway.launch.local.run import LocalLaunch, run_local
from trainway.launch.program.rank_launchers import logging_to, one_node

run = Path("run")
environment = one_node(1, max_restarts=0) | logging_to(run.absolute() / "logs", shown_ranks="0")
sys.exit(run_local(LocalLaunch(("torchrun", "program.py"), environment), run, {}))
"""


def run_unread(command: list[str], directory: Path) -> int:
    """Run a command, close its output after the first line, and return its exit status."""
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout and process.stderr
    assert b"first" in process.stdout.readline()
    process.stdout.close()
    process.stderr.close()
    (directory / "unread").touch()
    return process.wait()


@pytest.mark.parametrize(
    "command",
    [
        ["-m", "trainway.start", "launch", "--run=run", "--", "python", "program.py"],
        pytest.param(["-c", TORCHRUN], marks=pytest.mark.exhaustive),
    ],
    ids=["program", "torchrun"],
)
def test_a_job_succeeds_although_nobody_reads_its_output(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    assert run_unread([sys.executable, *command], tmp_path) == 0
    assert (tmp_path / "done").exists()
    assert read_launch(tmp_path / "run")["exit_status"] == 0
    logs = [*tmp_path.glob("run/logs/**/stdout.log"), *tmp_path.glob("run/logs/**/stderr.log")]
    assert "".join(log.read_text() for log in logs).count("line 4999 of the") == 2


def test_a_job_is_stopped_when_its_launcher_is_killed(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(STOPPABLE)
    launcher = subprocess.Popen(
        [sys.executable, "-m", "trainway.start", "launch", "--run=run", "--", "python", "program.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert launcher.stdout and launcher.stdout.readline() == "begun\n"
    launcher.kill()
    launcher.wait()
    end = time.monotonic() + 300
    while not (tmp_path / "stopped").exists():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert watch.state(read_launch(tmp_path / "run")["handle"]).phase is Phase.FAILED


def test_a_run_whose_launcher_failed_has_failed(tmp_path: Path) -> None:
    """launch.json has an end time, but no exit status."""
    handle = {"run": str(tmp_path), "pid": "1", "started_at": ""}
    record_submission(tmp_path, "local", handle, {}, {})
    write_launch(tmp_path, read_launch(tmp_path) | {"ended": "2026-11-27T23:08:37+00:00", "exit_status": None})
    state = watch.state(handle)
    assert state.phase is Phase.FAILED
    assert "before the job had ended" in state.reason
