"""Start a process with the default actions for signals, and list, reap, and kill it with its descendants."""

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path

SECONDS_BETWEEN_LOOKS = 0.2
STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
# Python ignores SIGPIPE and SIGXFSZ, and whoever starts this process can ignore others. A program inherits that.
_DEFAULTS = (*STOPS, signal.SIGQUIT, signal.SIGPIPE, signal.SIGXFSZ)
_SET_CHILD_SUBREAPER = 36  # prctl(2)


def begin() -> None:
    """Give the program a process group of its own, and the default action for every signal."""
    os.setpgid(0, 0)
    for number in _DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that none can outlive this process unseen."""
    try:
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (OSError, AttributeError):
        print("trainway: orphans of the program cannot be adopted on this system", file=sys.stderr)


def reaped(pid: int) -> "int | None":
    """Return how the process `pid` ended, negative for a signal, or None while it runs. Reap adopted processes."""
    while True:
        try:
            ended, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if ended == 0:
            return None
        if ended == pid:
            return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)


def children_of(pid: int) -> "set[int]":
    """Return the processes whose parent is the process `pid`."""
    return {each for each, parent in _parents().items() if parent == pid}


def children_by_parent() -> "dict[int, set[int]]":
    """Return the children of every process of this machine that has any."""
    found: dict[int, set[int]] = {}
    for child, parent in _parents().items():
        found.setdefault(parent, set()).add(child)
    return found


def parent_of(pid: int) -> int:
    """Return the parent of a process, or 0 if the process has ended."""
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def running_children() -> "set[int]":
    """Return the children of this process that run, also those that it adopted."""
    found = children_of(os.getpid())
    return found - _zombies(found)


def is_anything_left() -> bool:
    """Return whether any process runs that the program started.

    A child that ends while /proc is read hides its own children, which this process adopts then. So a look that finds
    nothing is repeated.
    """
    return any(found != _zombies(found) for found in (descendants() for _ in range(2)))


def variables_of(pid: int) -> "list[bytes]":
    """Return the environment of a process, as it was at its start. Empty for a process of another user."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def still_running() -> "list[str]":
    """Return the processes that the program started and that still run, each with what it waits for in the kernel.

    For example `python3 (rank 1, process 4711, futex_do_wait)`. Arguments are left out, because they may hold a secret.
    """
    found = sorted(descendants())
    return [_described(pid) for pid in found if pid not in _zombies(set(found))]


def kill_descendants() -> None:
    """Kill every process that the program started, until there is none, for five seconds at most."""
    # A process can start another one between the look and its own end, so the last look kills nothing.
    for _ in range(50):
        if not is_anything_left():
            return
        for pid in descendants():
            # A process of another user stays, such as one that sudo started.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)


def descendants() -> "set[int]":
    """Return the processes below this one."""
    parents, found = _parents(), {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


def seconds_of_processor(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended: proc_pid_stat(5)."""
    return sum(map(int, _stat(pid)[11:15])) / os.sysconf("SC_CLK_TCK")


def _parents() -> "dict[int, int]":
    """Return the parent of every process of this machine."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _described(pid: int) -> str:
    known = [f"process {pid}"]
    # Another user's process, or one that has just ended, tells less.
    known[:0] = [f"rank {each[5:].decode(errors='replace')}" for each in variables_of(pid) if each.startswith(b"RANK=")]
    with contextlib.suppress(OSError):
        function = Path(f"/proc/{pid}/wchan").read_text().strip()
        known += [function] if function not in ("", "0") else []
    return f"{_name(pid)} ({', '.join(known)})"


def _zombies(pids: "set[int]") -> "set[int]":
    return {pid for pid in pids if not (fields := _stat(pid)) or fields[0] == "Z"}


def _stat(pid: int) -> "list[str]":
    """Return the fields of /proc/PID/stat from the state on. The command before them may have spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
