"""Start runs. Every job of a launch is checked and rendered before the first is submitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trainway.launch.prepare import Launch
from trainway.launch.run_directory import make_run_directory, read_launch, record_submission, run_named
from trainway.launch.sweep import Point, sweep
from trainway.launch.target import Phase
from trainway.launch.target_options import options_from, options_record
from trainway.launch.targets import AnyTarget, own_target, target_named
from trainway.parts.job import Job
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load

_UNFINISHED = (Phase.QUEUED, Phase.STARTING, Phase.RUNNING)


def points_of(job_file: Path, axes: Sequence[str]) -> list[Point]:
    """The jobs of a launch: the file's own, or those of a sweep. Raises SpecError with every problem of the file."""
    job, text = load(job_file, Job), job_file.read_text(encoding="utf-8")
    return sweep(text, axes) if axes else [Point(job, text, {})]


def start(target_name: str, launch: Launch, options: Mapping[str, Any]) -> int:
    """Submit the jobs of a launch, or print exactly what would be submitted, and return the exit status.

    `options` are those of the target, by the names of their flags. The exit status is 0, or that of the first job that
    failed while the launcher ran it, which ends the launch. Nothing is submitted of a sweep of which one job cannot be.
    """
    target = target_named(target_name, cannot="launched")
    typed = options_from(target.options, options, target.name)
    _check_platform(target, launch)
    catalogue = load_catalogue()
    requests = target.prepare(launch)
    texts = [target.render(request, catalogue, typed) for request in requests]
    if launch.dry_run:
        print("".join(texts), end="")
        return 0
    recorded = {
        "platform_file": str(launch.platform_file),
        "group": launch.group,
        "code": launch.code,
        "target": options_record(typed),
    }
    for request in requests:
        make_run_directory(request.job_text, request.directory_here)
        handle = target.submit(request, catalogue, typed)
        record_submission(request.directory_here, target.name, handle, recorded, request.nodes)
        if target.attend is None:
            print(request.run)
        elif exit_status := target.attend(request, typed):
            return exit_status
    return 0


def resume(name: str) -> int:
    """Resume a run from its latest checkpoint on the same target with the same options. Return the exit status.

    Raises UsageError for a run that has not ended.
    """
    run = run_named(name)
    record = read_launch(run)
    target = target_named(record["target"], cannot="resumed")
    phase = target.state(record["handle"]).phase
    if phase in _UNFINISHED:
        fix = f"`trainway stop {name}` ends it, `trainway logs --follow {name}` shows it"
        raise usage_error(f"{name} cannot be resumed", why=f"it is {phase.value}", fix=fix)
    recorded = record["options"]
    launch = Launch(
        points_of(run / "job.yaml", []),
        Path(recorded["platform_file"]),
        run=run.name if target.orchestrators else str(run),
        group=recorded.get("group"),
        code=recorded.get("code"),
    )
    return start(target.name, launch, recorded["target"] if "target" in recorded else _earlier(recorded))


def _earlier(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a local run that an earlier version launched, or `trainway demo`."""
    return {"processes": recorded["processes"]}


def _check_platform(target: AnyTarget, launch: Launch) -> None:
    """Raise UsageError if the platform takes no jobs of the target."""
    if not target.orchestrators or launch.platform.orchestrator in target.orchestrators:
        return
    raise usage_error(
        f"{launch.platform.name} takes no jobs of the target {target.name}",
        why=f"its orchestrator is {launch.platform.orchestrator.value}",
        fix=f"launch with --target {own_target(launch.platform).name}",
    )
