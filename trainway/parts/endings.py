"""How a command ends early: by a signal, which cleans up as Ctrl-C does, or because a disk takes no more.

Python ends without any cleanup at SIGTERM, which `kill`, systemd, and CI send, and at SIGHUP, which a terminal that
closes sends. Then processes and temporary directories of the command would survive it.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any

SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# How long the processes of a command have to end before they are killed.
SECONDS_TO_END = 5.0


class ToldToEnd(BaseException):
    """A signal has told this process to end. As KeyboardInterrupt, it is no error that a command handles.

    `exit_status` is that of a shell whose command a signal has ended.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


class _Waiting:
    """The signal that came while it had to wait. `depth` is the number of blocks that it waits for."""

    depth = 0
    number: int | None = None


def end_on_signals() -> None:
    """Raise ToldToEnd in the main thread at the first SIGTERM or SIGHUP, and ignore those that follow.

    A signal that is ignored already stays so: nohup ignores SIGHUP.
    """
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _end)


def _end(number: int, _frame: FrameType | None) -> None:
    # The cleanup must not be interrupted. Ctrl-C still interrupts it.
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    if _Waiting.depth:
        _Waiting.number = number
        return
    raise ToldToEnd(number)


@contextmanager
def ending_later() -> Iterator[None]:
    """Let a signal wait until the end of a block, for a process that has started and is not known yet."""
    _Waiting.depth += 1
    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    # Another handler, such as that of a block around this one, does not raise KeyboardInterrupt. Only the main thread
    # may set one, and only there is it raised.
    waits = before is signal.default_int_handler and threading.current_thread() is threading.main_thread()
    if waits:
        signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        _Waiting.depth -= 1
        if waits:
            signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt
    if not _Waiting.depth and _Waiting.number is not None:
        raise ToldToEnd(_Waiting.number)


def run_to_end(
    command: Sequence[str],
    *,
    stdout: int | IO[Any] | None,
    stderr: int | IO[Any] | None,
    environment: Mapping[str, str] | None = None,
    directory: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command without input, by default in the current directory, and return its output.

    All that the command leaves behind ends with it. Its processes are in a group of their own, which ends when this
    process is interrupted. Its temporary files are in a
    directory of their own: the Node process of a CDK app that is killed does not delete them.
    """
    with tempfile.TemporaryDirectory(prefix="trainway-") as temporary:
        process = None
        try:
            with ending_later():
                process = subprocess.Popen(
                    command,
                    cwd=directory,
                    env={**(os.environ if environment is None else environment), "TMPDIR": temporary},
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=stderr,
                    text=True,
                    errors="replace",
                    process_group=0,
                )
            said, errors = _output(process)
        except BaseException:
            if process is not None:
                _end_group(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, said, errors)


def _output(process: subprocess.Popen[str]) -> tuple[str, str]:
    """Wait for a process to end, and return its standard output and standard error.

    Python runs a signal handler only between two bytecode instructions. If a signal arrives immediately before a read
    that blocks, the handler waits until the read returns. Each read therefore returns after one second at most.
    """
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=1)


def _end_group(process: subprocess.Popen[str]) -> None:
    """End a process and the others of its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(SECONDS_TO_END)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


_TAKES_NO_MORE = {
    errno.ENOSPC: ("the disk is full", "free some space"),
    errno.EDQUOT: ("your quota on the disk is used up", "free some space"),
    errno.EROFS: ("the file system is read-only", "use another directory"),
}


def takes_no_more(error: OSError) -> str | None:
    """Return the sentence for an error of a full or read-only disk, or None for another error."""
    what = f"{error.filename} cannot be written" if error.filename else "the output cannot be written"
    if error.errno in _TAKES_NO_MORE:
        why, fix = _TAKES_NO_MORE[error.errno]
        return f"{what}\n    why: {why}\n    fix: {fix}, and run the command again"
    # What Python says when it cannot write to any of them (tempfile.py).
    if "No usable temporary directory" in str(error):
        return (
            f"temporary files cannot be written\n    why: {error.strerror}: they are full, read-only, or not yours\n"
            "    fix: free some space, or set TMPDIR to a directory that you can write to"
        )
    return None
