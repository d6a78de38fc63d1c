"""Evaluate the checkpoints of a local run in a separate process while the run continues."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trainway.launch.runs.run_directory import read_launch


@contextmanager
def evaluated_meanwhile(run: Path) -> Iterator[None]:
    """Run `trainway evaluate` beside the block, and wait until it has evaluated the last checkpoint.

    Do not wait if the run was stopped: whoever stops it wants the machine back. `trainway resume` evaluates the rest.
    """
    # A new session, so that Ctrl-C reaches only the run, whose last checkpoint is still evaluated.
    command = [sys.executable, "-m", "trainway.cli", "evaluate", str(run)]
    follower = subprocess.Popen(command, stdout=sys.stderr, start_new_session=True)
    try:
        yield
        if "stopped_by" not in read_launch(run):
            follower.wait()
    finally:
        if follower.poll() is None:
            follower.terminate()
            follower.wait()
