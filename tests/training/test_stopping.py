"""A signal reaches all ranks, and nothing stops without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from training.hosts.stopping import StopSignal


@pytest.fixture
def handlers() -> Iterator[None]:
    """Leaves the handlers of this process as they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR1)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1])
@pytest.mark.usefixtures("one_rank", "handlers")
def test_either_signal_stops_and_goes_on_stopping(number: signal.Signals) -> None:
    stop = StopSignal()
    assert not stop.reached_any_rank()
    os.kill(os.getpid(), number)
    assert stop.reached_any_rank()
    assert stop.reached_any_rank()


@pytest.mark.parametrize(("end", "status"), [("stop.ignore_from_now_on()", 0), ("", -signal.SIGTERM)])
def test_a_signal_that_comes_while_python_ends_makes_no_failure_of_a_run_that_ended(end: str, status: int) -> None:
    program = f"""
import os, signal
from training.hosts.stopping import StopSignal

class Last:
    # What a module still holds goes after Python has taken its handlers back.
    def __del__(self, kill=os.kill, pid=os.getpid(), number=signal.SIGTERM):
        kill(pid, number)

stop, last = StopSignal(), Last()
{end}
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == status
