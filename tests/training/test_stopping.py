"""A signal reaches all ranks, and nothing stops without one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from training.stopping import StopSignal


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
