"""Run a command with a time limit: `limited.py SECONDS NAME COMMAND...`

Every line of its output gets the prefix [NAME]. This program ends the command and all its descendants in four cases:
at the limit, after a signal kills the command, when this program gets a signal, and when its parent dies. A mount
helper or a daemon that remains would conflict with the next run. If the command ends by itself, this program neither
ends its descendants nor waits for them.

  GRACE_SECONDS   time in seconds for the command to end by itself after SIGTERM (default 10)

The exit status is that of the command, 124 at the limit, and 128 + N after signal N, as with timeout(1) and a shell.
systemd's RuntimeMaxSec= does less: docs/decisions/08-node-steps.md.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

# Seconds between SIGTERM and SIGKILL, in which a process can save its state.
GRACE_SECONDS = float(os.environ.get("GRACE_SECONDS", "10"))
# Seconds between two checks of a silent command, and for which the output of an ended command is still read.
POLL_SECONDS, DRAIN_SECONDS = 0.2, 1.0
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# https://github.com/torvalds/linux/blob/master/include/uapi/linux/prctl.h (read 2026-11-22)
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


class Told(Exception):
    """Somebody sent this program a signal that ends it."""


def descendants(ancestor: int) -> set[int]:
    """Return the IDs of the living descendants of `ancestor`, including those of its dead children."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                # The process name before it is in parentheses, and may contain some itself.
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found: set[int] = set()
    while more := {child for child, parent in parents.items() if parent in found | {ancestor}} - found:
        found |= more
    return found


def send(number: signal.Signals, processes: set[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def end_all(grace_seconds: float = GRACE_SECONDS) -> None:
    """End every descendant of this process, first with SIGTERM, then with SIGKILL.

    A process that the kernel does not release stays.
    """
    send(signal.SIGTERM, descendants(os.getpid()))
    deadline = time.monotonic() + grace_seconds
    while (left := descendants(os.getpid())) and time.monotonic() < deadline:
        time.sleep(0.05)
    # They may have started other processes meanwhile.
    for _ in range(3):
        send(signal.SIGKILL, left)
        time.sleep(0.05)
        if not (left := descendants(os.getpid())):
            return


LIBC = ctypes.CDLL(None, use_errno=True)


def watch_the_family() -> None:
    """Let the kernel end this process with its parent, and make it the parent of its descendants' orphans."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_this_program() -> None:
    """Have the kernel kill the command if this program is killed, because this program then cannot do so."""
    LIBC.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def relay(pipe: int, name: str, deadline: float, command: subprocess.Popen[bytes]) -> bool:
    """Print the command's lines until it has ended. Return whether it ended before the deadline."""
    rest, ended = b"", False
    while (left := deadline - time.monotonic()) > 0:
        if not ended and command.poll() is not None:
            # Its last output can be read now. Output of processes that it left behind is not its own.
            ended, deadline = True, time.monotonic() + DRAIN_SECONDS
        if select.select([pipe], [], [], 0 if ended else min(POLL_SECONDS, left))[0]:
            if not (chunk := os.read(pipe, 65536)):
                ended = ended or ends_within(left, command)
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                say(name, line)
        elif ended:
            break
    if rest:
        say(name, rest)
    return ended


def ends_within(seconds: float, command: subprocess.Popen[bytes]) -> bool:
    with suppress(subprocess.TimeoutExpired):
        command.wait(seconds)
        return True
    return False


def say(name: str, line: bytes) -> None:
    """Print a line after [name]. A missing reader is not a reason to stop."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), b"[%s] %s\n" % (name.encode(), line))


def told(number: int, _frame: FrameType | None) -> NoReturn:
    raise Told(number)


def run(seconds: float, name: str, command: list[str]) -> int:
    """Run the command, and return the exit status of this program."""
    for number in SIGNALS:
        signal.signal(number, told)
    watch_the_family()
    reader, writer = os.pipe()
    try:
        started = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=writer, stderr=writer, preexec_fn=die_with_this_program
        )
        os.close(writer)
        if not relay(reader, name, time.monotonic() + seconds, started):
            end_all()
            return 124
        if started.returncode < 0:
            end_all()
    except OSError as error:
        say(name, f"{command[0]}: {error.strerror}".encode())
        return 127
    except Told as signaled:
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        end_all()
        return 128 + int(signaled.args[0])
    return started.returncode if started.returncode >= 0 else 128 - started.returncode


if __name__ == "__main__":
    sys.exit(run(float(sys.argv[1]), sys.argv[2], sys.argv[3:]))
