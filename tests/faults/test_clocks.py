"""The clocks of a run's hosts differ, or jump. The run ends with the same loss as without the fault."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.moments import wait_for_event, wait_for_moment
from tests.faults.test_processes import RESTARTS, assert_exact
from tests.ports import free_port
from tests.training.conftest import Launch, Run
from trainway.launch.program.rank_launchers import many_nodes

CLOCK = Path(__file__).parent / "clock"
MINUTES, DAY = 600.0, 86_400.0


class Host:
    """A host of two, with a rank and a clock of its own. Both are on this machine."""

    def __init__(self, launch: Launch, job: dict[str, Any], clock: Path, port: int, is_first: bool) -> None:
        self._clock = clock
        self.set_ahead(0)
        options = many_nodes(2, 1, endpoint=f"127.0.0.1:{port}", run="clocks", max_restarts=3)
        options["PET_RDZV_CONF"] += f",join_timeout=300,is_host={str(is_first).lower()}"
        self.start = lambda: launch(
            job,
            1,
            elastic=True,
            **options | RESTARTS,
            PET_LOCAL_ADDR="127.0.0.1",
            GLOO_SOCKET_IFNAME="lo",
            CLOCK=str(clock),
            PYTHONPATH=str(CLOCK),
        )

    def set_ahead(self, seconds: float) -> None:
        """Set the clock of the host, to this many seconds after that of the machine."""
        written = self._clock.with_suffix(".new")
        written.write_text(str(seconds))
        written.replace(self._clock)


@pytest.fixture
def hosts(launch_program: Launch, job: dict[str, Any], tmp_path: Path) -> Iterator[list[Host]]:
    """Two hosts whose clocks tell the same time. Each of their processes is a program of its own."""
    port = free_port()
    yield [Host(launch_program, job, tmp_path / f"clock-{number}", port, number == 0) for number in (0, 1)]


def finish(runs: list[Run], untouched: str, drawn: random.Random) -> None:
    """Kill a rank, so that the hosts meet again, and wait for the end."""
    step = wait_for_moment(runs[0], drawn, 5, 11)
    os.kill(drawn.choice(runs).workers()[0], signal.SIGKILL)
    wait_for_event(runs[0], "start", count=2)
    outputs = [run.finish() for run in runs]
    assert_exact(runs[0], untouched, starts=2)
    assert runs[0].events("start")[-1]["resumed_from"] >= step - step % 4 - 4
    assert not any("waiting for a heartbeat" in output for output in outputs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [MINUTES, DAY], ids=["ten minutes", "a day"])
def test_a_host_whose_clock_is_ahead(hosts: list[Host], untouched: str, drawn: random.Random, seconds: float) -> None:
    drawn.choice(hosts).set_ahead(seconds)
    finish([host.start() for host in hosts], untouched, drawn)


@pytest.mark.exhaustive
@pytest.mark.parametrize("seconds", [MINUTES, DAY], ids=["ten minutes", "a day"])
def test_a_clock_that_jumps_back(hosts: list[Host], untouched: str, drawn: random.Random, seconds: float) -> None:
    runs = [host.start() for host in hosts]
    wait_for_moment(runs[0], drawn, 1, 4)
    drawn.choice(hosts).set_ahead(-seconds)
    finish(runs, untouched, drawn)
