"""Processes are killed at random moments. The run ends with the same loss as without the fault."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.faults.moments import SECONDS_OF_A_STEP, wait_for_event, wait_for_moment
from tests.training.conftest import STEPS, Launch, Run

# From the fork of a rank to its first step.
SECONDS_OF_A_START = 0.5
RESTARTS = {"PET_MAX_RESTARTS": "3", "PET_MONITOR_INTERVAL": "0.1"}


def assert_exact(run: Run, untouched: str, starts: int) -> None:
    """Assert that the run ended after this number of starts, with the same bits of the loss as without a fault."""
    assert len(run.events("start")) == starts
    (end,) = run.events("end")
    assert (end["step"], end["loss_hex"]) == (STEPS, untouched)


def kill(run: Run, drawn: random.Random) -> None:
    """Kill a random rank."""
    os.kill(drawn.choice(run.workers()), signal.SIGKILL)


def lives(process: int) -> bool:
    """Return whether a process exists and has not ended."""
    stat = Path(f"/proc/{process}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


# More than ten CPU seconds. tests/training/test_watchdog.py shows that restarted ranks end with the same loss, and
# test_resume.py that a killed run resumes to the same bits.
@pytest.mark.exhaustive
def test_a_killed_worker(launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random) -> None:
    run = launch(job, 2, **RESTARTS)
    wait_for_moment(run, drawn, 5, 11)
    kill(run, drawn)
    run.finish()
    assert_exact(run, untouched, starts=2)


@pytest.mark.exhaustive
def test_a_killed_agent_takes_its_ranks_along(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random
) -> None:
    """The next start, as that of a container, is not refused because of ranks that still train."""
    run = launch(job, 2)
    wait_for_moment(run, drawn, 1, 11)
    ranks = run.workers()
    run.process.kill()
    run.process.wait()
    again = launch(job, 2)
    again.finish()
    assert_exact(again, untouched, starts=2)
    assert not any(lives(rank) for rank in ranks)


# Each of the two faults alone has a test in `make test`.
@pytest.mark.exhaustive
def test_two_faults_at_once(
    launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random, tmp_path: Path
) -> None:
    """A rank is killed, and a part of the newest checkpoint is cut off at a random byte."""
    run = launch(job, 2, **RESTARTS)
    wait_for_event(run, "checkpoint", 8)
    # While the ranks are stopped, none of them saves a newer one.
    ranks = run.workers()
    for rank in ranks:
        os.kill(rank, signal.SIGSTOP)
    newest = max(file.parent for file in (tmp_path / "checkpoints").glob("step-*/.metadata"))
    part = drawn.choice(sorted(newest.glob("*.distcp")))
    os.truncate(part, drawn.randrange(part.stat().st_size))
    kill(run, drawn)
    for rank in run.workers():
        # The rank that was killed can be gone already.
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGCONT)
    output = run.finish()
    assert f"{part.name} has " in output and "were written" in output
    assert_exact(run, untouched, starts=2)
    assert run.events("start")[-1]["resumed_from"] == int(newest.name[5:]) - 4


@pytest.mark.exhaustive
def test_a_fault_during_recovery(launch: Launch, job: dict[str, Any], untouched: str, drawn: random.Random) -> None:
    """A rank is killed just after its restart, while other ranks may wait for it."""
    run = launch(job, 2, **RESTARTS)
    wait_for_moment(run, drawn, 4, 8)
    first = set(run.workers())
    kill(run, drawn)
    while not (new := set(run.workers()) - first):
        assert run.process.poll() is None
        time.sleep(0.005)
    time.sleep(drawn.uniform(0, SECONDS_OF_A_START))
    os.kill(drawn.choice(sorted(new)), signal.SIGKILL)
    run.finish()
    assert run.events("end")[-1]["loss_hex"] == untouched
    assert 1 < len(run.events("start")) <= 3


@pytest.mark.exhaustive
def test_thirty_kills_in_one_run(launch: Launch, job: dict[str, Any], drawn: random.Random, tmp_path: Path) -> None:
    """A budget of one restart suffices, because the run makes progress before each kill."""

    def document(name: str) -> dict[str, Any]:
        saved = {"every": 2, "keep": 2, "location": str(tmp_path / name)}
        # Twice as many as the thirty starts take, because a kill can come some steps late.
        return job | {"steps": 124, "checkpoint": saved}

    whole = launch(document("whole"), 2, name="whole")
    whole.finish()
    agent = {"PET_START_METHOD": "fork", "PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "0.1"}
    run = launch(document("killed"), 2, elastic=True, **agent)
    with ThreadPoolExecutor(1) as reader:
        # The tracebacks of thirty attempts fill a pipe.
        output = reader.submit(run.finish)
        for starts in range(1, 31):
            wait_for_event(run, "start", count=starts)
            # The first checkpoint after the one from which the ranks resumed.
            wait_for_event(run, "checkpoint", int(run.events("start")[-1]["resumed_from"] or 0) + 2)
            time.sleep(drawn.uniform(0, SECONDS_OF_A_STEP))
            kill(run, drawn)
        output.result()
    assert len(run.events("start")) == 31
    assert [run.events("end")[-1][key] for key in ("step", "loss_hex")] == [
        whole.events("end")[-1][key] for key in ("step", "loss_hex")
    ]
