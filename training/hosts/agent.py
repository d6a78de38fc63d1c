"""What a rank and its torchrun agent do for each other: the agent learns how far the rank is, and the rank of its end.

An agent that is killed cannot end its ranks. They would train on, hold the lease of the run, and keep its next start
from the checkpoints.

When a rank fails, the agent sends SIGTERM to the others and waits up to 30 seconds for them. SIGTERM otherwise tells a
rank to save a checkpoint. A rank that waits in C code for the one that failed runs no Python handler, and never saves.
"""

import contextlib
import os
import select
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

AGENT = "TRAINWAY_AGENT"
"""The environment variable with the process ID of the agent, where the ranks are not children of it."""
PROGRESS = "TRAINWAY_PROGRESS"
"""The environment variable with a file of this node, in which ranks write the step of their newest checkpoint."""

_STATUS_OF_SIGTERM = 128 + signal.SIGTERM
_SECONDS_OF_A_HANDLER = 1.0


def agent() -> int:
    """Return the process ID of the agent of this rank."""
    return int(os.environ.get(AGENT) or os.getppid())


def note_progress(step: int) -> None:
    """Tell the agent of this node that the checkpoint of a step is complete. Every rank may call this."""
    file = os.environ.get(PROGRESS)
    if file and os.environ.get("LOCAL_RANK", "0") == "0":
        with contextlib.suppress(OSError):  # a full disk must not end a run that has just saved
            written = Path(f"{file}.{os.getpid()}")
            written.write_text(str(step))
            written.replace(file)


def progress() -> int:
    """Return the step of the newest checkpoint of which the ranks of this node have told their agent, or 0."""
    try:
        return int(Path(os.environ[PROGRESS]).read_text())
    except (KeyError, OSError, ValueError):
        return 0


def end_with_agent(heard: Callable[[], bool]) -> None:
    """End this process when its torchrun agent ends, and when the agent ends it because another rank has failed.

    A rank saves and ends by itself if its handler of SIGTERM runs, and `heard` then returns True. Call this in the main
    thread, after the handler is set. Without an agent, and on other systems than Linux, nothing changes.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ or not hasattr(os, "pidfd_open"):
        return
    parent = os.getppid()
    try:
        # PR_SET_PDEATHSIG of prctl would also kill a rank when only the thread ends that started it.
        ended = os.pidfd_open(agent())
    except ProcessLookupError:
        os.kill(os.getpid(), signal.SIGKILL)
    if os.getppid() != parent:
        # The agent ended before this process could watch it.
        os.kill(os.getpid(), signal.SIGKILL)
    # Python writes the numbers of signals there at once, even while the main thread waits in C code.
    arrived, written = socket.socketpair()
    written.setblocking(False)
    signal.set_wakeup_fd(written.detach(), warn_on_full_buffer=False)
    threading.Thread(target=_watch, args=(arrived, ended, heard), name="agent", daemon=True).start()


def _watch(arrived: socket.socket, ended: int, heard: Callable[[], bool]) -> None:
    while True:
        ready, _, _ = select.select([arrived.fileno(), ended], [], [])
        if ended in ready:
            os.kill(os.getpid(), signal.SIGKILL)
        if signal.SIGTERM in arrived.recv(64) and misses_a_rank() and not _within_a_second(heard):
            os._exit(_STATUS_OF_SIGTERM)


def _within_a_second(heard: Callable[[], bool]) -> bool:
    end = time.monotonic() + _SECONDS_OF_A_HANDLER
    while not heard() and time.monotonic() < end:
        time.sleep(0.02)
    return heard()


def misses_a_rank() -> bool:
    """Return whether the parent of this process has fewer children than the host has ranks.

    The parent of all ranks is the agent, or the process of which they are forks. Without an agent, the answer is False.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return False
    started_by, found = os.getppid(), 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = file.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # the process has ended meanwhile
            continue
        found += parent == str(started_by) and state not in "ZX"
    return found < int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
