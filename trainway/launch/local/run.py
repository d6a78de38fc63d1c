"""Launching on this machine: torchrun, or training.elastic, with any number of processes."""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TextIO

from trainway.launch.local.watch import handle_of
from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND, STOPPED
from trainway.launch.node.unread_output import discard
from trainway.launch.program.allocation import LOCAL_DISK, LOCAL_DISK_HERE
from trainway.launch.program.environment import job_environment, platform_environment
from trainway.launch.program.locations import check_team, local_roots
from trainway.launch.program.program import LOCK, STARTER, Program
from trainway.launch.program.rank_launchers import launches_ranks, logging_to, one_node
from trainway.launch.runs.logs import failure, last_words
from trainway.launch.runs.run_directory import read_launch, recorded_launch
from trainway.parts.checkout import child_environment
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.handoff import HandOff

# Signals that the job gets, which then saves itself.
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
# https://man7.org/linux/man-pages/man2/PR_SET_PDEATHSIG.2const.html (read 2026-11-27)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class LocalLaunch:
    """A job as this machine will run it: the command, and what it adds to the environment."""

    command: tuple[str, ...]
    environment: dict[str, str]

    def __str__(self) -> str:
        """Return the launch as a command line of a shell."""
        settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(self.environment.items())]
        return " ".join([*settings, shlex.join(self.command)])


def render_local(
    program: Program, run: Path, *, processes: int, hand_off: HandOff | None, code: str | None = None
) -> LocalLaunch:
    """Return the launch of a program whose job file is in `run`. Raises UsageError if it cannot run here."""
    try:
        program.check_ranks(processes)
    except ValueError as error:
        why, fix = str(error), "change --processes, or the job file"
        raise usage_error(f"{program.name} cannot run on {processes} processes", why=why, fix=fix) from None
    if program.image is not None and "@" in program.image:
        raise usage_error(
            f"{program.name} cannot run on this machine",
            why=f"its job file names the image {program.image}, and this machine starts no containers",
            fix="leave run.image out and install what the program needs, or launch with another --target",
        )
    if hand_off:
        check_team(program, hand_off)
    if program.started_by is not None:
        # The program starts in the directory of its code.
        run = run.absolute()
    environment = {
        **job_environment(run / "job.yaml", run),
        **one_node(processes, max_restarts=_restarts(program)),
        **logging_to(run / "logs", shown_ranks="0"),
        "OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // processes)),
        **child_environment(),
        **program.permission_to_begin_anew,
    }
    roots: Mapping[str, str] = {}
    if hand_off:
        roots = local_roots(program, hand_off)
        environment |= platform_environment(hand_off, roots)
    if program.started_by is not None:
        # The file system of a platform is not here, so the outputs are in the directory of the run.
        environment |= replace(program, outputs=None).variables(run.name, run, roots)
        environment |= {"TRAINWAY_NODES": "1", "TRAINWAY_GPUS_PER_NODE": str(processes)}
        environment |= {"TRAINWAY_STOPPED_STATUS": str(STOPPED)}
    if program.local_disk:
        environment[LOCAL_DISK] = str(LOCAL_DISK_HERE)
    if program.lock is not None:
        environment |= {"TRAINWAY_PACKAGES_HERE": str(_cache() / "packages")}
    return LocalLaunch(program.node_command(STARTER.parent, code, run / LOCK), environment)


def _restarts(program: Program) -> int:
    """Return how often the processes here are restarted: never by default, because somebody waits for the error."""
    life_cycle = program.life_cycle
    return life_cycle.process_restarts if "process_restarts" in life_cycle.stated else 0


def run_local(launch: LocalLaunch, run: Path, options: Mapping[str, Any], output: TextIO | None = None) -> int:
    """Run a job to its end and return its exit status. SIGTERM, SIGHUP, and Ctrl-C reach the job, which saves itself.

    The job also gets SIGTERM when this process is killed. `options` are kept for `trainway resume`. The output of rank
    0 goes to the file `output`, or to this process's own output. The output of what starts the ranks, a page of
    traceback for every failure of the job, goes to logs/torchrun.log.
    """
    (run / "logs").mkdir(parents=True, exist_ok=True)
    if marks_lines := launches_ranks(launch.command):
        # PyTorch has it, and says more clearly than a module that cannot be imported that there is none.
        _found("torchrun")
    with (
        recorded_launch(run, handle_of(run), launch.command, launch.environment, options) as record,
        (run / "logs" / "torchrun.log").open("a", encoding="utf-8") as log,
    ):
        process = subprocess.Popen(
            (_found(launch.command[0]), *launch.command[1:]),
            env={**os.environ, "PATH": _path(), **launch.environment},
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # A session of its own, so that Ctrl-C reaches the job once, through here, and not its ranks as well.
            start_new_session=True,
            preexec_fn=_stopped_with(os.getpid()),
        )

        def forward(number: int, _frame: Any) -> None:
            record["stopped_by"] = signal.Signals(number).name
            process.send_signal(number)

        # nohup ignores SIGHUP, and the job then continues.
        passed_on = [number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, forward) for number in passed_on}
        try:
            with ThreadPoolExecutor(1) as reader:
                if process.stdout is not None:
                    reader.submit(_pass_on, process.stdout, lambda _: sys.stdout)
                assert process.stderr is not None  # it was asked for
                # How torchrun and training.elastic mark what they pass on. A starter keeps its program's lines itself.
                is_shown = re.compile(r"\[default" if marks_lines else "")
                _pass_on(process.stderr, lambda line: (output or sys.stderr) if is_shown.match(line) else log)
            record["exit_status"] = process.wait()
            if reason := failure(run):
                record["reason"] = reason
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return int(record["exit_status"])


def _stopped_with(launcher: int) -> Callable[[], None]:
    """Return a `preexec_fn` that requests SIGTERM for the process when the launcher dies. It needs Linux."""
    # A forked process must not load libraries, so this process does.
    set_option = getattr(ctypes.CDLL(None), "prctl", None)

    def begin() -> None:
        if set_option is not None:
            set_option(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
            if os.getppid() != launcher:
                os.kill(os.getpid(), signal.SIGTERM)

    return begin


def _pass_on(source: IO[str], sink_of: Callable[[str], IO[str]]) -> None:
    """Pass on each line. If a sink is closed, discard its lines, and continue."""
    for line in source:
        sink = sink_of(line)
        try:
            print(line, end="", file=sink, flush=True)
        except OSError:
            discard(sink)


def job_failed(run: Path, exit_status: int) -> UsageError:
    """Return the error for a job that failed or was stopped, with the last line of its first rank."""
    if stopped_by := read_launch(run).get("stopped_by"):
        fix = f"`trainway resume {run}` resumes from its latest checkpoint"
        return usage_error(f"the job was stopped by {stopped_by}", why="a stop was requested", fix=fix)
    # A program that could not start said nothing.
    could_not_start = failure(run) if exit_status in (NOT_EXECUTABLE, NOT_FOUND) else None
    why = could_not_start or last_words(run) or failure(run) or "no rank said why"
    return usage_error(
        f"the job ended with status {exit_status}", why=why, fix=f"the complete output is in {run / 'logs'}"
    )


def _cache() -> Path:
    """Return the directory of this user for what can be made again.

    https://specifications.freedesktop.org/basedir-spec/latest/ (read 2026-11-23)
    """
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trainway"


def _path() -> str:
    """Return PATH with the programs beside this interpreter first."""
    return os.pathsep.join(filter(None, (str(Path(sys.executable).parent), os.environ.get("PATH"))))


def _found(program: str) -> str:
    """Return the program beside this interpreter, or else the one on PATH."""
    found = shutil.which(program, path=_path())
    if found is None:
        raise usage_error(
            "the job cannot start", why=f"{program} is not installed", fix="pip install 'trainway[training]'"
        )
    return found
