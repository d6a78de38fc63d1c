"""Which process a number means: it is used again after the process has ended, so the time of its start goes with it."""

from __future__ import annotations

import subprocess


def started_at(pid: int) -> str | None:
    """Return the start time of a process as `ps` prints it, or None if the process does not exist."""
    # The C locale, so that what is written down today is what is read tomorrow.
    listed = subprocess.run(
        ["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False, env={"LC_ALL": "C"}
    )
    return listed.stdout.strip() or None
