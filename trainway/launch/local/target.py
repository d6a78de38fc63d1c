"""The target `local`: a run that lives as long as the launcher."""

from __future__ import annotations

import sys
from pathlib import Path

from trainway.explain.evidence import Evidence
from trainway.explain.gather import evidence_of_run
from trainway.launch.local.options import LocalOptions
from trainway.launch.local.run import LocalLaunch, job_failed, render_local, run_local
from trainway.launch.local.watch import forward, handle_of, logs, shell, state, stop
from trainway.launch.program.request import LocalRequest
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.starting.prepare import requests_here
from trainway.launch.target.protocol import Handle, Target
from trainway.spec.facts.catalogue import Catalogue


def _render(request: LocalRequest, catalogue: Catalogue, options: LocalOptions) -> str:
    del catalogue  # this machine is in no catalogue
    return f"{_launch(request, options)}\n"


def _submit(request: LocalRequest, catalogue: Catalogue, options: LocalOptions) -> Handle:
    """Return the handle of this process, in which `_attend` runs the job."""
    del catalogue, options
    return handle_of(request.directory_here)


def _attend(request: LocalRequest, options: LocalOptions) -> int:
    run = request.directory_here
    if exit_status := run_local(_launch(request, options), run, read_launch(run)["options"]):
        print(job_failed(run, exit_status), file=sys.stderr)
    else:
        print(f"run: {run}", file=sys.stderr)
    return exit_status


def _launch(request: LocalRequest, options: LocalOptions) -> LocalLaunch:
    return render_local(
        request.program,
        request.directory_here,
        processes=options.processes,
        hand_off=request.hand_off,
        code=request.code,
    )


def _evidence(handle: Handle) -> Evidence:
    return evidence_of_run(Path(handle["run"]))


TARGET = Target(
    name="local",
    heading="On this machine",
    options=LocalOptions,
    prepare=requests_here,
    render=_render,
    submit=_submit,
    attend=_attend,
    state=state,
    logs=logs,
    stop=stop,
    shell=shell,
    forward=forward,
    evidence=_evidence,
)
