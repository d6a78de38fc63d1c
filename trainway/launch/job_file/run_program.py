"""Any program as a Program, from the section `run` of its job file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from trainway.launch.job_file.run_file import METRIC_PRESETS, RunFile, RunSection
from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND
from trainway.launch.platform.locations import scheme_of
from trainway.launch.program.program import Program, RequestedPackages, Stop
from trainway.launch.program.rank_launchers import ONCE_PER_GPU


def run_program(file: RunFile, text: str, directory: Path) -> Program:
    """Return the program of a job file that says `text`, without what `programs.py` adds to programs of both kinds.

    Its `code` is relative to `directory`.
    """
    run = file.run
    patterns, files = _metrics(run.metrics)
    command, is_script = run.command or (run.script or "",), bool(run.script)
    is_per_gpu = run.ranks == "per-gpu"
    if is_per_gpu:
        command, is_script = (*ONCE_PER_GPU, *(("bash", "-c", run.script) if run.script else command)), False
    outputs = None if _is_directory_of_runs(run.outputs, file.team) else run.outputs
    secrets = {**file.trackers.secrets, **run.secrets}
    located = {f"TRAINWAY_INPUT_{name.upper()}": location for name, location in run.inputs.items()}
    located |= {name: value for name, value in run.environment.items() if scheme_of(value)}
    return Program(
        name=file.name,
        text=text,
        nodes=file.nodes,
        team=file.team,
        command=command,
        is_script=is_script,
        started_by=(
            f"--stop-signal={run.stop.signal}",
            f"--grace={run.stop.grace}",
            f"--hang={run.hang_minutes * 60}",
            *(f"--metric={name}={pattern}" for name, pattern in patterns.items()),
            *(() if files is None else (f"--metric-files={files}",)),
            *(f"--secret={name}={secret}" for name, secret in secrets.items()),
            *(f"--tracker={name}" for name in file.trackers.named),
            *(("--always-retry",) if "restarts" in file.life_cycle.model_fields_set else ()),
            *(("--script",) if is_script else ()),
            *(("--per-gpu",) if is_per_gpu else ()),
        ),
        environment={
            **{name: value for name, value in run.environment.items() if not scheme_of(value)},
            **({} if run.array_index is None else {"TRAINWAY_ARRAY_INDEX": str(run.array_index)}),
        },
        allowed_variables=run.allow_environment,
        secrets=secrets,
        located=located,
        inputs=tuple(run.inputs.values()),
        locations=tuple(located.values()),
        outputs=outputs,
        written=(outputs,) if outputs else (),
        image=run.image,
        packages=_packages(run, file.name, directory),
        code_limit=run.code_limit,
        code=None if run.code is None else str((directory / run.code).absolute()),
        elastic=run.elastic,
        stop=Stop(signal=run.stop.signal, grace_seconds=run.stop.grace),
        metrics=tuple(patterns.items()),
        fatal_statuses=(NOT_EXECUTABLE, NOT_FOUND),
    )


def _is_directory_of_runs(location: str | None, team: str | None) -> bool:
    """Return whether a location is the directory of all runs, such as `fsx:/runs`.

    A run has its own directory there, with the files of the launcher. A program can empty the directory of its outputs,
    which is therefore the folder `outputs` of that directory.
    """
    return (location or "").rstrip("/") in ("fsx:/runs", f"fsx:/runs/{team}")


def _metrics(said: Mapping[str, str] | str) -> tuple[Mapping[str, str], str | None]:
    """Return the regular expressions of `run.metrics`, and the pattern of files below the outputs."""
    if not isinstance(said, str):
        return said, None
    if said in METRIC_PRESETS:
        return METRIC_PRESETS[said], None
    return {}, said if said.endswith(".jsonl") else said.removeprefix("tensorboard").removeprefix(":").strip("/")


def _packages(run: RunSection, job: str, directory: Path) -> RequestedPackages | None:
    if not run.packages:
        return None
    if isinstance(run.packages, str):
        return RequestedPackages(job, directory, file=directory / run.packages)
    return RequestedPackages(job, directory, names=run.packages)
