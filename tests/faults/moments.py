"""Random moments of a run, which a seed repeats."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.training.conftest import Run

SEED = "FAULTS_SEED"
"""Environment variable with the seed of the random moments. `python -m tests.faults` sets it for each repetition."""
# A step of the tests' job takes about this long.
SECONDS_OF_A_STEP = 0.05


def drawn_for(name: str) -> random.Random:
    """Return the random numbers of one test, and print how to draw them again."""
    seed = os.environ.get(SEED, "0")
    print(f"{SEED}={seed} pytest {name}")
    return random.Random(f"{seed} {name}")


@pytest.fixture
def drawn(request: pytest.FixtureRequest) -> random.Random:
    """The random numbers of this test."""
    return drawn_for(request.node.nodeid)


def wait_for_moment(run: Run, drawn: random.Random, first: int, last: int) -> int:
    """Wait for a random moment within or after one of these steps. Return the step."""
    step = drawn.randint(first, last)
    wait_for_event(run, "step", step)
    time.sleep(drawn.uniform(0, SECONDS_OF_A_STEP))
    return step


def wait_for_event(run: Run, kind: str, step: int = 0, count: int = 1) -> None:
    """Wait until the run has written `count` events of a kind, of this step or of later steps."""
    end = time.monotonic() + 300
    while sum(event.get("step", 0) >= step for event in run.events(kind)) < count:
        assert run.process.poll() is None, run.process.communicate()[0]
        assert time.monotonic() < end, f"no {kind} of step {step}"
        time.sleep(0.005)
