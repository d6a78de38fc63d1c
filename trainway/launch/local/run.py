"""Launching on this machine: torchrun with any number of processes."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from trainway.launch.allocation import check_team
from trainway.launch.environment import job_environment, platform_environment
from trainway.launch.local.watch import handle_of
from trainway.launch.locations import local_roots
from trainway.launch.logs import last_words
from trainway.launch.run_directory import read_launch, recorded_launch
from trainway.launch.training_command import logging_to, one_node, training_command
from trainway.parts.checkout import child_environment
from trainway.parts.job import Job
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff


@dataclass(frozen=True)
class LocalLaunch:
    """A job as this machine will run it: the command, and what it adds to the environment."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def __str__(self) -> str:
        """The launch as a line for a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment.items())]
        return " ".join([*settings, shlex.join(self.command)])


def render_local(
    job: Job, run: Path, *, processes: int, hand_off: HandOff | None, until_step: int | None = None
) -> LocalLaunch:
    """The launch of a job whose file was copied to `run`; raises UsageError if it cannot run that way."""
    try:
        job.layout(processes)
    except ValueError as error:
        why, fix = str(error), "change --processes, or the job file"
        raise usage_error(f"{job.name} cannot run on {processes} processes", why=why, fix=fix) from None
    if hand_off:
        check_team(job, hand_off)
    environment = {
        **job_environment(run / "job.yaml", run),
        **one_node(processes),
        **logging_to(run / "logs", shown_ranks="0"),
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes)),
        **child_environment(),
    }
    if hand_off:
        environment |= platform_environment(hand_off, local_roots(job, hand_off))
    return LocalLaunch(training_command(until_step), environment)


def run_local(launch: LocalLaunch, run: Path, options: Mapping[str, Any], output: TextIO | None = None) -> int:
    """Run a job to its end and return its exit status. SIGTERM and Ctrl-C reach the job, which then saves itself.

    `options` are kept for `trainway resume`. The output of rank 0 goes to the file `output`, or to this process's own
    output. The output of torchrun itself, a page of traceback for every failure of the job, goes to logs/torchrun.log.
    """
    (run / "logs").mkdir(parents=True, exist_ok=True)
    with (
        recorded_launch(run, handle_of(run), launch.command, launch.environment, options) as record,
        (run / "logs" / "torchrun.log").open("a", encoding="utf-8") as log,
    ):
        process = subprocess.Popen(
            (_torchrun(), *launch.command[1:]),
            env={**os.environ, **launch.environment},
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # A session of its own, so that Ctrl-C reaches torchrun once, through here, and not its workers as well.
            start_new_session=True,
        )

        def forward(number: int, _frame: Any) -> None:
            record["stopped_by"] = signal.Signals(number).name
            process.send_signal(number)

        before = {number: signal.signal(number, forward) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            assert process.stderr is not None  # it was asked for
            for line in process.stderr:
                # How torchrun marks what it passes on.
                stream = (output or sys.stderr) if line.startswith("[default") else log
                print(line, end="", file=stream, flush=True)
            record["exit_status"] = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return int(record["exit_status"])


def job_failed(run: Path, exit_status: int) -> UsageError:
    """The error for a job that ended before its time, with the last words of its first rank."""
    if stopped_by := read_launch(run).get("stopped_by"):
        fix = f"`trainway resume {run}` resumes from its latest checkpoint"
        return usage_error(f"the job was stopped by {stopped_by}", why="it was told to", fix=fix)
    why = last_words(run) or "no rank said why"
    return usage_error(f"the job ended with status {exit_status}", why=why, fix=f"the whole story is in {run / 'logs'}")


def _torchrun() -> str:
    """The torchrun beside this interpreter, or else the one on PATH."""
    beside = Path(sys.executable).with_name("torchrun")
    found = str(beside) if beside.exists() else shutil.which("torchrun")
    if found is None:
        raise usage_error(
            "the job cannot start", why="torchrun is not installed", fix="pip install 'trainway[training]'"
        )
    return found
