"""An allocation with a shell on its first node. The allocation ends with the shell."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from trainway.launch.job_file.programs import INTERACTIVE_HOURS
from trainway.launch.runs.run_directory import read_launch, run_named
from trainway.launch.starting.prepare import Launch
from trainway.launch.starting.start import start
from trainway.launch.target.known import AnyTarget
from trainway.launch.target.protocol import Handle, Phase
from trainway.spec.errors import usage_error

SECONDS_BETWEEN_LOOKS = 2.0
_WAITING = (Phase.QUEUED, Phase.STARTING)


def open_shell(target: AnyTarget, launch: Launch, options: Mapping[str, Any]) -> int:
    """Submit a launch of `interactive_program`, open a shell on its first node, and stop the run when the shell ends.

    Return the shell's exit status. Raises UsageError if the target has no such allocations, or if the run ends before
    it starts. Whatever happens, the run is stopped.
    """
    if not target.interactive:
        fix = "launch with --target slurm or --target kubernetes"
        raise usage_error(f"--interactive is not supported by the `{target.name}` target", why=_WHY_NOT, fix=fix)
    if launch.dry_run:
        return start(target, launch, options)
    submitted: list[str] = []
    start(target, launch, options, submitted.append)
    [run] = submitted
    handle: Handle = read_launch(run_named(run))["handle"]
    # A terminal that closes ends this process, and must not leave the nodes allocated.
    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    try:
        # Not after hours in a queue.
        target.check_shell(handle)
        _wait(target, handle, run)
        print(f"{run}: the allocation ends with this shell, after {INTERACTIVE_HOURS} hours at most", file=sys.stderr)
        return subprocess.call(list(target.shell(handle, 0)))
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    finally:
        target.stop(handle)
        print(f"{run} was told to stop", file=sys.stderr)


_WHY_NOT = "only Slurm and Kubernetes give nodes to a shell"


def _wait(target: AnyTarget, handle: Handle, run: str) -> None:
    """Wait until the run has its nodes. Print its state when that changes."""
    shown = ""
    while (found := target.state(handle)).phase is not Phase.RUNNING:
        if found.phase not in _WAITING:
            why = f"it is {found.phase.value}" + (f": {found.reason}" if found.reason else "")
            raise usage_error(f"{run} has no shell", why=why, fix=f"`trainway logs {run}` shows what it printed")
        said = f"{run} is {found.phase.value}" + (f": {found.reason}" if found.reason else "")
        if said != shown:
            print(said, file=sys.stderr)
            shown = said
        time.sleep(SECONDS_BETWEEN_LOOKS)
