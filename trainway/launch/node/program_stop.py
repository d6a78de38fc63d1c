"""The stop of a program: its signal reaches the whole program, and no process twice."""

import contextlib
import os
import signal
import time
from pathlib import Path

from trainway.launch.node.process_tree import children_by_parent, children_of, running_children, variables_of

# A process that handles the signal may have passed it on before it ended. The processes that it leaves have so much
# time to end by themselves.
SECONDS_AFTER_A_HANDLER = 5.0
# The lines of /proc/PID/status with the signals that a process handles and ignores: proc_pid_status(5).
_MASKS = ("SigCgt", "SigIgn")
# DeepSpeed's launcher sends two signals to the ranks when it gets one, and then kills them:
# https://github.com/deepspeedai/DeepSpeed/blob/v0.19.8/deepspeed/launcher/runner.py (sigkill_handler, read 2026-11-29)
_KILL_THEIR_RANKS = ("deepspeed", "deepspeed.pt", "ds")


class ProgramStop:
    """Tells the processes of a program to stop.

    `pid` is the first process of the program, and `command` is what started it. `grace` is the time in seconds that the
    program has to end. `with_children` says that the processes of a script are told with the script.
    """

    def __init__(
        self,
        pid: int,
        command: "list[str]",
        number: "signal.Signals",
        grace: float,
        *,
        with_children: bool = False,
    ) -> None:
        self._pid, self._signal, self._with_children = pid, number, with_children
        self._kills_ranks = Path(command[0]).name in _KILL_THEIR_RANKS
        self._patience = min(SECONDS_AFTER_A_HANDLER, grace / 4)
        self._is_told = False
        self._told: set[int] = set()
        # Children of a process that the signal ends at once: it cannot have passed the signal on.
        self._uninformed: set[int] = set()
        self._ended_at: float | None = None

    def tell(self) -> None:
        """Signal the program: its first process, or the ranks of a launcher that would kill them."""
        self._is_told = True
        ranks = ranks_below(self._pid) if self._kills_ranks else set()
        first = ranks or {self._pid, *(children_of(self._pid) if self._with_children else ())}
        self._tell(first)

    def tell_survivors(self) -> None:
        """Signal each process once that the program has left behind. Call it when the first process has ended.

        Without a call of `tell`, every process has the signal already.
        """
        if not self._is_told:
            return
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        left = running_children() - self._told
        if time.monotonic() < self._ended_at + self._patience:
            left &= self._uninformed
        self._tell(left)

    def _tell(self, pids: "set[int]") -> None:
        """Signal processes, except readers of a pipe: their end would break the pipe of a process that saves."""
        for pid in sorted(pids - _readers(pids) - self._told):
            children = children_of(pid)
            caught, ignored = handling(pid, self._signal)
            # A process of another user is left alone.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, self._signal)
            self._told.add(pid)
            if ignored:
                self._tell(children)
            elif not caught:
                self._uninformed |= children


def ranks_below(pid: int) -> "set[int]":
    """Return the topmost processes below a process that have the number of a rank in their environment."""
    # A node has thousands of processes, so they are listed once.
    children, found, below = children_by_parent(), set(), [pid]
    while below:
        for child in children.get(below.pop(), ()):
            if any(each.startswith(b"LOCAL_RANK=") for each in variables_of(child)):
                found.add(child)
            else:
                below.append(child)
    return found


def _readers(pids: "set[int]") -> "set[int]":
    """Return the processes whose standard input is the output of another one of them, such as `tee`."""
    written = {pid: {_file(pid, 1), _file(pid, 2)} for pid in pids}
    return {
        pid
        for pid in pids
        if (read := _file(pid, 0)).startswith("pipe:") and any(read in written[other] for other in pids - {pid})
    }


def _file(pid: int, descriptor: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/fd/{descriptor}").readlink())
    except OSError:
        return ""


def handling(pid: int, number: "signal.Signals") -> "tuple[bool, bool]":
    """Return whether a process has a handler for a signal, and whether it ignores the signal."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False, False
    masks = {name: int(value, 16) for name, _, value in (line.partition(":") for line in lines) if name in _MASKS}
    caught, ignored = (bool(masks.get(name, 0) >> (number - 1) & 1) for name in _MASKS)
    return caught, ignored
