"""Starting runs: on this machine one after the other, or submitted to a platform all at once."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from training.config import Job
from trainway.launch.code import sync
from trainway.launch.hand_off import read_hand_off
from trainway.launch.local import job_failed, render_local, run_local
from trainway.launch.locations import needs_hand_off
from trainway.launch.prepare import prepare
from trainway.launch.run_directory import (
    RUNS,
    default_run_directory,
    make_run_directory,
    read_launch,
    record_submission,
    run_named,
)
from trainway.launch.submission import render, submit
from trainway.launch.sweep import Point, sweep
from trainway.launch.target import Phase
from trainway.launch.targets import target_named
from trainway.spec.catalogue import load_catalogue
from trainway.spec.errors import usage_error
from trainway.spec.loader import load, load_platform
from trainway.spec.platform import Platform

_UNFINISHED = (Phase.QUEUED, Phase.STARTING, Phase.RUNNING)


def points_of(job_file: Path, axes: Sequence[str]) -> list[Point]:
    """The jobs of a launch: the file's own, or those of a sweep. Raises SpecError with every problem of the file."""
    job, text = load(job_file, Job), job_file.read_text(encoding="utf-8")
    return sweep(text, axes) if axes else [Point(job, text, {})]


def start_here(
    points: Sequence[Point],
    platform_file: Path,
    options: Mapping[str, Any],
    *,
    run: str | None = None,
    dry_run: bool = False,
) -> int:
    """Runs jobs on this machine, and returns the first exit status that is not 0: a job that fails ends the sweep.

    `run` is the directory of the only job; the options are `processes` and `until_step`.
    """
    for point in points:
        hand_off = read_hand_off(load_platform(platform_file)) if needs_hand_off(point.job) else None
        directory = Path(run) if run else default_run_directory(point.job.name)
        launched = render_local(point.job, directory, hand_off=hand_off, **options)
        if dry_run:
            print(launched)
            continue
        make_run_directory(point.text, directory)
        recorded = {"platform_file": str(platform_file), **options, "until_step": None}
        if exit_status := run_local(launched, directory, recorded):
            print(job_failed(directory, exit_status), file=sys.stderr)
            return exit_status
        print(f"run: {directory}", file=sys.stderr)
    return 0


def start_on_platform(
    points: Sequence[Point],
    target: str,
    platform_file: Path,
    options: Mapping[str, Any],
    *,
    group: str | None = None,
    code: str | None = None,
    until_step: int | None = None,
    run: str | None = None,
    dry_run: bool = False,
) -> None:
    """Submits jobs to a platform, or prints exactly what would be submitted.

    `code` is a directory that is synced first, `run` the name of the only run. Nothing is submitted of a sweep of which
    one job cannot be.
    """
    catalogue = load_catalogue()
    platform = load_platform(platform_file)
    _check_target(target, platform)
    requests = prepare(points, platform, catalogue, run=run, group=group, until_step=until_step)
    location = None
    if code is not None:
        location = sync(Path(code), requests[0].hand_off, upload=not dry_run)
    texts = [render(request, catalogue, target, options, location) for request in requests]
    if dry_run:
        print("".join(texts), end="")
        return
    recorded = {"platform_file": str(platform_file), "group": group, "code": code, "target": dict(options)}
    for point, request in zip(points, requests, strict=True):
        directory = RUNS / request.run
        make_run_directory(point.text, directory)
        handle = submit(request, catalogue, target, options, location)
        nodes = {"count": request.allocation.nodes, "instance_type": request.allocation.group.instance_type}
        record_submission(directory, target, handle, recorded, nodes)
        print(request.run)


def _check_target(target: str, platform: Platform) -> None:
    own = "kubernetes" if platform.orchestrator.is_kubernetes else "slurm"
    if target not in (own, "sagemaker"):
        raise usage_error(
            f"{platform.name} takes no jobs of the target {target}",
            why=f"its orchestrator is {platform.orchestrator.value}",
            fix=f"launch with --target {own}",
        )


def resume(name: str) -> int:
    """Lets a run go on where and as it was launched, and returns the exit status.

    Raises UsageError for a run that has not ended.
    """
    run = run_named(name)
    record = read_launch(run)
    phase = target_named(record["target"]).state(record["handle"]).phase
    if phase in _UNFINISHED:
        fix = f"`trainway stop {name}` ends it, `trainway logs --follow {name}` shows it"
        raise usage_error(f"{name} cannot be resumed", why=f"it is {phase.value}", fix=fix)
    points, options = points_of(run / "job.yaml", []), dict(record["options"])
    platform_file = Path(options.pop("platform_file"))
    if record["target"] == "local":
        return start_here(points, platform_file, options, run=str(run))
    target_options = options.pop("target")
    start_on_platform(points, record["target"], platform_file, target_options, run=run.name, **options)
    return 0
