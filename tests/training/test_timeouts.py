"""A rank waits for the others as long as the job file says, and longer where ranks differ in speed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.training.conftest import Launch
from tests.training.torchrun_server import TorchrunServer

PROGRAM = Path(__file__).parent / "timeouts.py"


def test_all_groups_of_training_and_no_other_wait_as_long_as_the_job_says(torchrun: TorchrunServer) -> None:
    from tests.training.timeouts import OTHER_SECONDS, SECONDS

    printed = torchrun.run_program(PROGRAM, ranks=4)
    (line,) = (line for line in printed.splitlines() if line.startswith("WAITED "))
    around, of_steps, of_checkpoints, said = json.loads(line.removeprefix("WAITED "))
    assert around == [OTHER_SECONDS]
    assert of_steps == [SECONDS] * 5
    assert of_checkpoints > OTHER_SECONDS
    assert f"{1000 * SECONDS}ms" in said


@pytest.mark.exhaustive
def test_a_run_fails_when_a_rank_hangs_for_as_long_as_the_job_says(launch: Launch, job: dict[str, Any]) -> None:
    """The run also ends if the other rank hangs in a save, although the group of saves has a timeout of 30 minutes."""
    waits = {"hang_detection": {"action": "none", "collective_timeout_seconds": 5}, "steps": 100_000}
    waits["checkpoint"] = job["checkpoint"] | {"every": 1}
    run = launch(job | waits, 2)
    while not run.events("step"):
        assert run.process.poll() is None
        time.sleep(0.1)
    hung, waiting = sorted(run.workers(), reverse=True)
    os.kill(hung, signal.SIGSTOP)
    while waiting in run.workers():
        time.sleep(0.1)
    os.kill(hung, signal.SIGCONT)
    output, _ = run.process.communicate(timeout=1800)
    assert run.process.returncode
    assert "5000ms" in output
