"""Gather what `trainway top` shows, from each platform's scheduler, run registry, and exporters of runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainway.launch.platform.hand_off import DeployedPlatform, read_hand_off
from trainway.launch.registry.connections import registry_of
from trainway.launch.registry.find import launch_of
from trainway.launch.registry.record import RunRecord, UnreadableRecord
from trainway.launch.registry.store import Registry
from trainway.launch.runs.run_directory import RUNS, read_launch, runs_below
from trainway.launch.runs.status import Row, age, status_of, status_of_launch, written_step
from trainway.launch.starting.never_starts import why_never
from trainway.launch.target.cluster_state import ClusterJob, ClusterNode, ClusterState
from trainway.launch.target.known import AnyTarget, target_of
from trainway.launch.target.phase import OVER, Phase
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.problems import SpecError
from trainway.spec.sections.orchestrator import Orchestrator

_ENDED = tuple(each.value for each in OVER)


@dataclass(frozen=True)
class TopJob:
    """A job in the list. None stands for an unknown value.

    `age` is the time in seconds since its launch, or since its submission if Trainway has not launched it. `used` is
    the mean utilization of its GPUs, from 0 to 1, and `idle` the number of those that have not computed for minutes.
    """

    name: str
    target: str
    phase: str
    owner: str | None = None
    team: str | None = None
    step: str | None = None
    tokens_per_second: float | None = None
    gpus: int | None = None
    age: float | None = None
    nodes: tuple[str, ...] = ()
    reason: str = ""
    used: float | None = None
    idle: int | None = None


@dataclass(frozen=True)
class Site:
    """The nodes and jobs of a platform or this machine, and sentences about what is unknown.

    `region` is None for this machine.
    """

    name: str
    region: str | None
    nodes: tuple[ClusterNode, ...] = ()
    jobs: tuple[TopJob, ...] = ()
    unknown: tuple[str, ...] = ()

    def as_document(self) -> dict[str, Any]:
        """Return the site as plain values for JSON."""
        return asdict(self)


def this_site() -> Site:
    """Return this machine, with the runs that were launched on it from this directory and have not ended."""
    from trainway.launch.local.cluster_state import this_machine

    rows = [status_of(run) for run in runs_below(RUNS) if read_launch(run)["target"] == "local"]
    node = this_machine()
    unknown = ("nvidia-smi is missing or has failed: the GPUs are unknown",) if node.gpus is None else ()
    return Site(node.name, None, (node,), tuple(_of_row(each) for each in rows if each.phase not in _ENDED), unknown)


def site_of(platform: DeployedPlatform, user: str | None) -> Site:
    """Return the nodes and jobs of a deployed platform. What cannot be read is unknown, and a sentence says why."""
    try:
        hand_off = read_hand_off(platform)
    except UsageError as error:
        return Site(platform.name, platform.region, unknown=(_sentence(error),))
    target = target_of(Orchestrator(hand_off.orchestrator))
    unknown = list[str]()
    state = ClusterState()
    if target.cluster_state is not None:
        try:
            state = target.cluster_state(hand_off, user)
        except UsageError as error:
            unknown.append(_sentence(error))
    registry, jobs = registry_of(hand_off), list[TopJob]()
    for job in state.jobs:
        jobs.append(_of_job(job, target, registry, hand_off, unknown))
    if hand_off.training_jobs:
        jobs += _training_jobs(registry, target, unknown)
    return Site(platform.name, platform.region, state.nodes, tuple(jobs), (*unknown, *state.unknown))


def _of_job(job: ClusterJob, target: AnyTarget, registry: Registry, hand_off: HandOff, unknown: list[str]) -> TopJob:
    """Return a job of a cluster. If the job is a run, its record has its owner, and its state has its step."""
    record: RunRecord | None = None
    try:
        record = registry.read(job.name)
    except UsageError as error:
        _add(unknown, f"who launched the runs is unknown: {_sentence(error)}")
    handle: Mapping[str, str] = ((record.launch if record else None) or {}).get("handle", {})
    if record is None or not job.found_by.items() <= handle.items():
        record = None
    written = registry.state(record.team, record.run) if record else None
    metrics = job.metrics or {}
    return TopJob(
        job.name,
        target.name,
        job.phase.value,
        record.owner if record else job.owner,
        (record.team if record else None) or job.team,
        _step(metrics) or (written_step(asdict(written)) if written else None),
        metrics.get("trainway_run_tokens_per_second"),
        job.gpus,
        age((record.launch or {})["started"]) if record else None if job.since is None else time.time() - job.since,
        job.nodes,
        (_why_never(record, hand_off) if record and job.phase is Phase.QUEUED else None) or job.reason,
        job.used,
        job.idle,
    )


def _why_never(record: RunRecord, hand_off: HandOff) -> str | None:
    """Return why a queued run can never start, or None if it can, or if its record does not say what it needs."""
    with TemporaryDirectory() as directory:
        for name, text in record.files.items():
            Path(directory, name).write_text(text, encoding="utf-8")
        try:
            why = why_never(Path(directory), record.launch or {}, hand_off)
        except (UsageError, SpecError, KeyError):
            return None
    return f"never starts: {why}" if why else None


def _training_jobs(registry: Registry, own: AnyTarget, unknown: list[str]) -> list[TopJob]:
    """Return the runs of a platform that are on other targets than its cluster, such as SageMaker training jobs."""
    found = list[TopJob]()

    def is_elsewhere(record: RunRecord) -> bool:
        return record.launch is not None and record.launch["target"] != own.name

    try:
        for run in registry.runs_of_teams(wanted=is_elsewhere):
            if isinstance(run, UnreadableRecord):
                _add(unknown, f"the record of the run {run.run} is unreadable: {run.why}")
            elif run.state is None or run.state.state not in _ENDED:
                launch, written = launch_of(run.record, registry), asdict(run.state) if run.state else None
                row = status_of_launch(run.record.run, launch, RUNS / run.record.run, written)
                if row.phase not in _ENDED:
                    found.append(_of_row(row))
    except UsageError as error:
        _add(unknown, f"the training jobs are unknown: {_sentence(error)}")
    return found


def _of_row(row: Row) -> TopJob:
    """Return a run as `trainway status` shows it. Its GPUs are unknown, because its target does not report them."""
    return TopJob(
        row.run,
        row.target,
        row.phase,
        row.owner,
        row.team,
        row.step,
        row.tokens_per_second,
        age=age(row.started),
        nodes=row.nodes,
        reason=row.reason,
    )


def _step(metrics: Mapping[str, float]) -> str | None:
    done, steps = metrics.get("trainway_run_step"), metrics.get("trainway_run_steps")
    if done is None:
        return None
    return f"{done:.0f}" if steps is None else f"{done:.0f}/{steps:.0f}"


def _add(unknown: list[str], sentence: str) -> None:
    if sentence not in unknown:
        unknown.append(sentence)


def _sentence(error: UsageError) -> str:
    return "; ".join(line.strip() for line in str(error).splitlines())
