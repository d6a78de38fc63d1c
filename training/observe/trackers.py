"""Start the processes that send the metrics of a run to its trackers, and end them with the run.

Each tracker has a process of its own, which reads metrics.jsonl. A tracker that is slow, or that fails, cannot hold up
a step, and what it missed is still in the file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from training.config.trackers import Trackers
from training.observe.tracker_process import GIVE_UP

# How long the end of a run waits for what a tracker has not sent yet. A run that was told to stop has little time:
# torchrun kills its ranks 30 seconds after the signal.
_LONGEST_END_SECONDS = float(os.environ.get("TRAINWAY_TRACKER_SECONDS", "10"))
_LONGEST_STOP_SECONDS = 3.0
_SECONDS_TO_COUNT = 2.0


class TrackerProcesses:
    """The trackers of a run, each in a process. Only rank 0 has them."""

    def __init__(self, trackers: Trackers, job: str, run: Path) -> None:
        name = os.environ.get("TRAINWAY_RUN_NAME", run.resolve().name)
        environment = {**trackers.environment(job, name), **os.environ, "TRAINWAY_RUN_NAME": name}
        secrets = trackers.secrets_by_tracker
        self._processes: dict[str, subprocess.Popen[str]] = {}
        for tracker in trackers.named:
            secret = [f"--secret={variable}={name}" for variable, name in secrets.get(tracker, {}).items()]
            command = [sys.executable, "-m", "training.observe.tracker_process", tracker, str(run), *secret]
            try:
                self._processes[tracker] = subprocess.Popen(
                    command, env=environment, stdin=subprocess.PIPE, text=True, start_new_session=True
                )
            except OSError as error:
                print(f"warning: trackers.{tracker} cannot start: {error}", file=sys.stderr, flush=True)

    def close(self, state: str) -> None:
        """Tell the trackers that the run is `succeeded` or `stopped`, and wait for the remaining rows."""
        for process in self._processes.values():
            try:
                assert process.stdin is not None
                process.stdin.write(state)
                process.stdin.close()
            except OSError:
                continue  # the process has ended, and has said why
        ends = time.monotonic() + (_LONGEST_END_SECONDS if state == "succeeded" else _LONGEST_STOP_SECONDS)
        for process in self._processes.values():
            try:
                process.wait(max(0.0, ends - time.monotonic()))
                continue
            except subprocess.TimeoutExpired:
                process.send_signal(GIVE_UP)  # the process then says how much it has not sent
            try:
                process.wait(_SECONDS_TO_COUNT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
