"""A launch target in one file: a job on this machine that gives way to other work and outlives its launcher."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from trainway.explain.evidence import Evidence
from trainway.explain.log_lines import evidence_of_lines
from trainway.launch.local import render_local
from trainway.launch.program.request import LocalRequest
from trainway.launch.runs.process_identity import started_at
from trainway.launch.starting.prepare import requests_here
from trainway.launch.target.options import Flag
from trainway.launch.target.protocol import Handle, Phase, State, Target
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines, cannot_choose
from trainway.spec.facts.catalogue import Catalogue


@dataclass(frozen=True)
class Options:
    """How one run is started. `niceness` is the priority of its processes."""

    niceness: Annotated[int, Flag("Priority from 0 to 19. Processes with a higher number give way.", least=0)] = 10


def render(request: LocalRequest, catalogue: Catalogue, options: Options) -> str:
    """Return the line that a shell runs."""
    del catalogue
    launch = render_local(request.program, request.directory_here, processes=1, hand_off=request.hand_off)
    return f"nice --adjustment={options.niceness} env {launch}\n"


def submit(request: LocalRequest, catalogue: Catalogue, options: Options) -> Handle:
    """Start the run in a session of its own. A run that was stopped starts again."""
    run = request.directory_here.absolute()
    (run / "status").unlink(missing_ok=True)
    with (run / "output.log").open("wb") as output:
        # The shell lives until the job has saved a checkpoint, and writes down how the job ended.
        line = f'trap outcome=stopped TERM\n{render(request, catalogue, options)}echo "${{outcome:-$?}}" >"$0"'
        command = ["sh", "-c", line, str(run / "status")]
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    return {"run": str(run), "pid": str(process.pid), "started_at": started_at(process.pid) or ""}


def state(handle: Handle) -> State:
    """Return the state of a run, which its shell wrote down if the run has ended."""
    if handle["started_at"] and started_at(int(handle["pid"])) == handle["started_at"]:
        return State(Phase.RUNNING, nodes=(os.uname().nodename,))
    status = Path(handle["run"], "status")
    if not status.exists():
        return State(Phase.STOPPED, "its shell was killed")
    outcome = status.read_text(encoding="utf-8").strip()
    if outcome in ("0", "stopped"):
        return State(Phase.SUCCEEDED if outcome == "0" else Phase.STOPPED)
    return State(Phase.FAILED, f"exit status {outcome}")


def logs(handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
    """Return the lines of a run's output, which one process writes without times. There is nothing to choose."""
    if wanted != EVERY_LINE:
        why, fix = "its output is one file without times", "print all of it"
        raise cannot_choose("options of `trainway logs`", handle["run"], why, fix)
    with Path(handle["run"], "output.log").open(encoding="utf-8", errors="replace") as output:
        while True:
            # Asked before the file is read, so that the last lines are read too.
            ended = not follow or state(handle).phase is not Phase.RUNNING
            yield from (f"[0 -] {line.rstrip()}" for line in output)
            if ended:
                return
            time.sleep(1)


def stop(handle: Handle) -> None:
    """Send SIGTERM to all processes of a run, which then save a checkpoint and end."""
    if state(handle).phase is Phase.RUNNING:
        os.killpg(int(handle["pid"]), signal.SIGTERM)


def shell(handle: Handle, node: int) -> Sequence[str]:
    """Return a command that opens a shell in the directory of a run."""
    del node
    return ("sh", "-c", 'cd "$0" && exec sh', handle["run"])


def evidence(handle: Handle) -> Evidence:
    """Return what the output of a run tells."""
    return evidence_of_lines(logs(handle, follow=False))


TARGET = Target(
    name="background",
    heading="In the background of this machine",
    options=Options,
    prepare=requests_here,
    render=render,
    submit=submit,
    state=state,
    logs=logs,
    stop=stop,
    shell=shell,
    evidence=evidence,
)
