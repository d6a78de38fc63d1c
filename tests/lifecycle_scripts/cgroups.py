"""The cgroups of nodes, below the cgroup of the process that boots them."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")


def is_unified() -> bool:
    """Return whether this machine has only the second version of cgroups."""
    return (CGROUPS / "cgroup.controllers").exists()


def own_cgroups(name: str) -> list[Path]:
    """Return the cgroup of this name below that of this process, in each hierarchy."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        # The second version, beside the first.
        hierarchy = "" if is_unified() else controllers.removeprefix("name=") or "unified"
        below = CGROUPS / hierarchy / path.lstrip("/")
        if below.is_dir():
            found.append(below / name)
    return found


def remove_cgroups(name: str) -> None:
    """Remove the cgroups of this name, with those below them."""
    for top in own_cgroups(name):
        # Empty a moment after the last process has ended.
        for path in sorted((*top.rglob("*/"), top), reverse=True):
            for _ in range(1500):
                with suppress(FileNotFoundError):
                    try:
                        path.rmdir()
                    except OSError:
                        time.sleep(0.02)
                        continue
                break
