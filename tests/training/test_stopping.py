"""A signal reaches all ranks, and nothing stops without one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.nested_signals import handles_nested_signals
from tests.training.torchrun_server import Started, TorchrunServer


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
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    from training.hosts.stopping import StopSignal

    stop = StopSignal()
    stop.share(HashStore())
    assert not stop.reached_any_rank()
    os.kill(os.getpid(), number)
    assert stop.reached_any_rank()
    assert stop.reached_any_rank()


@pytest.mark.usefixtures("one_rank", "handlers")
def test_an_attempt_does_not_stop_because_of_the_one_before() -> None:
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    from training.hosts.stopping import StopSignal

    store = HashStore()
    earlier, later = StopSignal(), StopSignal()
    earlier.share(store)
    earlier.request()
    assert earlier.reached_any_rank()
    later.share(store)
    assert not later.reached_any_rank()


@pytest.mark.usefixtures("one_rank", "handlers")
@pytest.mark.parametrize("told", [False, True])
def test_a_store_that_has_lost_the_entry_ends_the_rank(told: bool) -> None:
    import torch.distributed as dist
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    from training.hosts.stopping import StopSignal

    store, stop = HashStore(), StopSignal()
    stop.share(store)
    assert not stop.reached_any_rank()
    store.delete_key("trainway/stop")
    if told:
        stop.request()
    with pytest.raises(dist.DistStoreError, match="has lost trainway/stop"):
        stop.reached_any_rank()


STORE = """
import time
from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
print(store.port, flush=True)
time.sleep(600)
"""


@pytest.fixture
def host(torchrun: TorchrunServer, tmp_path: Path) -> Iterator[Started]:
    """Return a process that hosts a store and prints the port of the store."""
    program = tmp_path / "store.py"
    program.write_text(STORE)
    started = torchrun.start_python([str(program)], os.environ)
    yield started
    started.kill()
    started.wait()


@pytest.mark.usefixtures("one_rank", "handlers")
@pytest.mark.parametrize("told", [False, True])
def test_a_rank_ends_when_the_host_of_the_store_has_ended(told: bool, host: Started) -> None:
    import torch.distributed as dist
    from torch._C._distributed_c10d import TCPStore

    from training.hosts.stopping import StopSignal

    stop = StopSignal()
    stop.share(TCPStore("127.0.0.1", int(host.readline()), wait_for_workers=False))
    assert not stop.reached_any_rank()
    host.kill()
    host.wait()
    if told:
        stop.request()
    with pytest.raises(dist.DistError):
        stop.reached_any_rank()


RANKS = 3


@pytest.mark.usefixtures("one_rank", "handlers")
@given(st.lists(st.tuples(st.integers(0, RANKS - 1), st.sampled_from(["step", "step", "step", "signal"])), max_size=40))
def test_all_ranks_stop_after_the_same_step_however_far_ahead_some_are(events: list[tuple[int, str]]) -> None:
    from torch._C._distributed_c10d import HashStore  # the public name is not declared as exported

    from training.hosts.stopping import StopSignal

    store = HashStore()
    signals = [StopSignal() for _ in range(RANKS)]
    for each in signals:
        each.share(store)
    steps, stopped, told = [0] * RANKS, [False] * RANKS, [False] * RANKS
    latest = None

    def step(rank: int) -> None:
        nonlocal latest
        furthest = max(steps)
        steps[rank] += 1
        stopped[rank] = signals[rank].reached_any_rank()
        if told[rank] and latest is None:
            latest = furthest + 1

    for rank, event in events:
        if event == "signal":
            told[rank] = True
            signals[rank].request()
        elif not stopped[rank]:
            step(rank)
    if latest is None:
        assert not any(stopped)
        return
    for rank in range(RANKS):
        while not stopped[rank]:
            assert steps[rank] < latest, "the run goes on although a rank was told to stop"
            step(rank)
    assert steps == [latest] * RANKS


# Two forks, of which the second ignores signals from now on, end as Python ends.
ENDING = """
import os, signal
from training.hosts.stopping import StopSignal

class Last:
    # What a module still holds goes after Python has taken its handlers back.
    def __del__(self, kill=os.kill, number=signal.SIGTERM, pid=os.getpid):
        kill(pid(), number)

for ignores in (False, True):
    child = os.fork()
    if child == 0:
        stop, last = StopSignal(), Last()
        if ignores:
            stop.ignore_from_now_on()
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_signal_that_comes_while_python_ends_makes_no_failure_of_a_run_that_ended() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=True)
    assert [int(status) for status in ended.stdout.split()] == [-signal.SIGTERM, 0]


def test_a_second_signal_within_the_handler_of_the_first_one_blocks_no_rank() -> None:
    """For example that of Slurm, which signals each process, and that of the agent."""
    assert handles_nested_signals("from training.hosts.stopping import StopSignal\nstop = StopSignal()\n")
