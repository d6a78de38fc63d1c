"""Give the processes of a test more CPU time than those of other tests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

CPU = Path("/sys/fs/cgroup/cpu")
# Linux gives each session 1024 shares, and applies the nice value of a process only within its session.
# https://man7.org/linux/man-pages/man7/sched.7.html (the autogroup feature)
SHARES = 20 * 1024


@contextmanager
def more_cpu_time(processes: Sequence[int]) -> Iterator[None]:
    """Give processes and their children twenty times the CPU shares of a session until the context ends.

    If this machine has no writable cgroup of version 1, the shares stay as they are.
    """
    group = CPU / f"trainway-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cpu.shares").write_text(str(SHARES))
    except OSError:
        yield
        return
    move(processes, group)
    try:
        yield
    finally:
        remove(group)


def remove(group: Path) -> None:
    """Move the processes of a cgroup to the root cgroup, and remove the empty cgroup."""
    for _ in range(20):
        move([int(line) for line in (group / "cgroup.procs").read_text().split()], CPU)
        # The kernel refuses to remove a cgroup while one of its processes starts or ends.
        with suppress(OSError):
            group.rmdir()
            return
        time.sleep(0.1)


def move(processes: Sequence[int], group: Path) -> None:
    """Move each process that is still alive to a cgroup."""
    for process in processes:
        with suppress(ProcessLookupError):
            (group / "cgroup.procs").write_text(str(process))
