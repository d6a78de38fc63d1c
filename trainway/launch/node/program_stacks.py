"""The stacks of a program that hangs: each Python process writes those of all its threads, and ends.

Python writes them at SIGABRT if the variable PYTHONFAULTHANDLER was set when it started. That is done in C, so that it
works for a process that waits in C code with Python's lock, and it requires no right to read other processes.
https://docs.python.org/3/library/faulthandler.html (read 2026-11-30)
"""

import contextlib
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from trainway.launch.node.process_tree import descendants, parent_of, variables_of
from trainway.launch.node.program_stop import handling, ranks_below

VARIABLE = "PYTHONFAULTHANDLER"
_SECONDS_FOR_ONE = 0.5
_SECONDS_FOR_ALL = 10.0


def write_stacks(pid: int) -> "set[int]":
    """Let the ranks below a process write their stacks, or all processes below this one without ranks.

    Return the processes that do. A process of another user cannot be told.
    """
    told = set()
    ranks = _with_first_rank(ranks_below(pid))
    with _held(_launchers(ranks)):
        for each in ranks or descendants():
            if handling(each, signal.SIGABRT)[0]:
                with contextlib.suppress(OSError, ValueError):
                    # The memory of a rank is large, and nobody reads the copy. With 0, the kernel still writes it to a
                    # program that /proc/sys/kernel/core_pattern names. With 1, it writes none:
                    # https://github.com/torvalds/linux/blob/master/fs/coredump.c (do_coredump, read 2026-11-29)
                    _, most = resource.prlimit(each, resource.RLIMIT_CORE)
                    resource.prlimit(each, resource.RLIMIT_CORE, (1, most))
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(each, signal.SIGABRT)
                    # A process that was stopped handles no signal before it continues.
                    os.kill(each, signal.SIGCONT)
                    told.add(each)
                    # Two that write at once to one pipe mix the parts of their lines.
                    _wait_for_end({each}, _SECONDS_FOR_ONE)
        _wait_for_end(told, _SECONDS_FOR_ALL)
    return told


@contextlib.contextmanager
def _held(launchers: "set[int]") -> "Iterator[None]":
    """Stop launchers for the duration of the block. One that sees the end of a rank ends the others at once."""
    _signal(launchers, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(launchers, signal.SIGCONT)


def _signal(pids: "set[int]", number: signal.Signals) -> None:
    for each in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(each, number)


def _launchers(ranks: "set[int]") -> "set[int]":
    """Return the processes between this one and the ranks."""
    found: set[int] = set()
    below = descendants()
    parents = {parent_of(rank) for rank in ranks} & below - ranks
    while parents:
        found |= parents
        parents = {parent_of(each) for each in parents} & below - ranks - found
    return found


def _wait_for_end(pids: "set[int]", seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(map(_runs, pids)):
        time.sleep(0.01)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def _with_first_rank(ranks: "set[int]") -> "set[int]":
    """Add the parents of ranks among which the first one of the node is absent.

    Lightning's first rank is the process that starts the others, and sets its variables only for itself:
    https://github.com/Lightning-AI/pytorch-lightning/blob/master/src/lightning/fabric/strategies/launchers/subprocess_script.py
    (read 2026-11-29)
    """
    if not ranks or any(b"LOCAL_RANK=0" in variables_of(rank) for rank in ranks):
        return ranks
    return ranks | {parent_of(rank) for rank in ranks} & descendants()
