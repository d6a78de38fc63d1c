"""Start runs. Every job of a launch is checked before the first is submitted."""

from __future__ import annotations

import contextlib
import io
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from trainway.launch.job_file.programs import (
    NO_FLAGS,
    CommandFlags,
    evaluating,
    load_program,
    load_recorded_program,
    program_of_command,
)
from trainway.launch.job_file.sweep import Point, sweep
from trainway.launch.platform.hand_off import DeployedPlatform
from trainway.launch.platform.locations import team_of
from trainway.launch.program.allocation import local_disk_warning
from trainway.launch.program.lost_nodes import LostNodeOptions, node_counts
from trainway.launch.program.on_checkpoint import EvaluatedCheckpoint
from trainway.launch.program.program import LOCK, Program
from trainway.launch.program.request import Request
from trainway.launch.registry.find import PLATFORM_FILE, connected_by, find_run, platform_of
from trainway.launch.registry.platform_file import kept_platform_file
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.store import Registry
from trainway.launch.runs.run_directory import make_run_directory, now, read_launch, record_submission
from trainway.launch.starting.code import sync
from trainway.launch.starting.evaluated_meanwhile import evaluated_meanwhile
from trainway.launch.starting.prepare import Launch, evaluation_points
from trainway.launch.starting.recorded import recorded
from trainway.launch.starting.run_code import code_record, digest_of, recorded_code
from trainway.launch.target.known import AnyTarget, own_target, target_named
from trainway.launch.target.options import options_from, options_of_anybody, options_record
from trainway.launch.target.protocol import Phase
from trainway.price.run import NodePrice, node_price, training_job_price
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.problems import SpecError

_UNFINISHED = (Phase.QUEUED, Phase.STARTING, Phase.RUNNING)


def points_of(job_file: Path, axes: Sequence[str], until_step: int | None = None) -> list[Point]:
    """Return the programs of a launch: the job file's own, or those of a sweep over its keys.

    `until_step` is the step after which each stops. Raises SpecError with every problem of the file.
    """
    program = load_program(job_file, until_step)
    if program.started_by is None and any(axis.startswith("run.") for axis in axes):
        why = f"{job_file} describes Trainway's training job, and has no section `run`"
        fix = "sweep a key of the job instead, for example --sweep seed=0,1,2"
        raise usage_error(f"{program.name} cannot be an array", why=why, fix=fix)
    return sweep(program.text, axes, until_step, job_file.parent) if axes else [Point(program, {})]


def is_job_file(words: Sequence[str]) -> bool:
    """Return whether the words of a launch name a job file, and not a command."""
    return len(words) == 1 and not words[0].endswith(".py") and shutil.which(words[0]) is None


def points_of_command(words: Sequence[str], axes: Sequence[str], flags: CommandFlags = NO_FLAGS) -> list[Point]:
    """Return the programs of a launch without a job file. Every node runs the words in the code of this directory.

    A single Python file is started by torchrun. Raises UsageError for words or flags that no job file can have.
    """
    program = program_of_command(words, Path.cwd(), flags)
    return sweep(program.text, axes) if axes else [Point(program, {})]


def start(target: AnyTarget, launch: Launch, options: Mapping[str, Any], say: Callable[[str], object] = print) -> int:
    """Submit the jobs of a launch, or print what would be submitted, and return the exit status.

    `options` are those of the target that were said, by the names of their flags. They take precedence over those of
    the job file. `say` gets the name of each run that outlives the launcher. The exit status is 0, or that of the first
    job that failed while the launcher ran it, which ends the launch. Nothing is submitted of a sweep of which one job
    cannot be.
    """
    launch, requests = with_requests(
        target, replace(launch, source="deployed or file") if launch.dry_run else launch, options
    )
    typed = launch.options
    if launch.dry_run:
        # Runs of a sweep often cost the same. Standard output is only what would be submitted.
        for line in dict.fromkeys(map(partial(_price_line, target, launch), requests, typed)):
            if line:
                print(line, file=sys.stderr)
        documents = [
            target.render(each, load_catalogue(), chosen) for each, chosen in zip(requests, typed, strict=True)
        ]
        print("".join(documents if launch.full else map(target.shown, documents)), end="")
        return 0
    kept = {
        "platform_file": str(launch.platform_file),
        "group": launch.group,
        **_kept_of_code(launch, requests[0]),
        "image": launch.image,
        **({"allow_tcp": True} if launch.allow_tcp else {}),
        **({} if launch.evaluation is None else {"evaluation": asdict(launch.evaluation)}),
        **_kept_of_evaluations(launch.points[0].program, requests[0]),
    }
    check_jobs(target, requests, typed)
    if not all(isinstance(request, Request) for request in requests):
        # Runs of this machine. Their directories are all the record that there is.
        return _first_failure(
            _submit(target, launch, request, chosen, kept, say) for request, chosen in zip(requests, typed, strict=True)
        )
    with recorded(requests, named=launch.run is not None, resumed=launch.resumed) as runs:
        return _first_failure(
            _submit(target, launch, run.request, chosen, kept, say, run.submitted)
            for run, chosen in zip(runs, typed, strict=True)
        )


def with_requests(target: AnyTarget, launch: Launch, options: Mapping[str, Any]) -> tuple[Launch, Sequence[Any]]:
    """Return a launch with the typed options of its target, and a request for each of its jobs.

    `options` are as those of `start`. Raises UsageError for a job that cannot be submitted, or whose evaluation cannot.
    """
    typed = [
        options_from(target.options, {**point.program.options.get(target.name, {}), **options}, target.name)
        for point in launch.points
    ]
    launch = replace(launch, options=typed)
    _check_platform(target, launch)
    launch.check_code()
    requests = target.prepare(launch)
    # Runs of a sweep often have the same nodes.
    for line in dict.fromkeys(_disk_warning(target, each) for each in requests):
        if line:
            print(line, file=sys.stderr)
    if not launch.resumed:
        _check_evaluations(target, launch)
    return launch, requests


def _disk_warning(target: AnyTarget, request: Any) -> str | None:
    """Return the warning that nodes have no local disk for the checkpoints of a job, or None."""
    if not isinstance(request, Request):
        return None
    orchestrator = request.hand_off.orchestrator
    return local_disk_warning(request.program, request.allocation, orchestrator, on_nodes=target.on_nodes_of_platform)


def _price(target: AnyTarget, launch: Launch, request: Any) -> NodePrice | None:
    """Return the price of a node of a request; None for a run of this machine."""
    if not isinstance(request, Request):
        return None
    group = request.allocation.group
    if not target.on_nodes_of_platform:
        return training_job_price(launch.platform, group.instance_type)
    return node_price(launch.platform, group.name, group.instance_type)


def _price_line(target: AnyTarget, launch: Launch, request: Any, options: Any) -> str | None:
    price = _price(target, launch, request)
    if price is None:
        return None
    return f"price of {request.program.name}: {price.sentence(_paid_nodes(request, options))}"


def _paid_nodes(request: Request, options: Any) -> int:
    """Return the number of nodes that the run pays for, including spare nodes."""
    return node_counts(request, options).started if isinstance(options, LostNodeOptions) else request.allocation.nodes


def _first_failure(exit_statuses: Iterable[int]) -> int:
    """Return the first exit status that is not 0, and do not ask for those after it."""
    return next(filter(None, exit_statuses), 0)


def check_jobs(target: AnyTarget, requests: Sequence[Any], typed: Sequence[Any]) -> None:
    """Raise UsageError if one of the requests cannot be submitted."""
    for each, chosen in zip(requests, typed, strict=True):
        (target.check or target.render)(each, load_catalogue(), chosen)


def _submit(
    target: AnyTarget,
    launch: Launch,
    request: Any,
    chosen: Any,
    kept: Mapping[str, Any],
    say: Callable[[str], object],
    submitted: Callable[[dict[str, Any]], object] = lambda _: None,
) -> int:
    """Submit one run, and write down where it is. Return its exit status if the target attends it, or else 0."""
    make_run_directory(request.job_text, request.directory_here, request.kept_files)
    handle = target.submit(request, load_catalogue(), chosen)
    options = {**kept, "target": options_record(chosen)}
    nodes = request.nodes
    if nodes is not None:
        nodes = {**nodes, "count": _paid_nodes(request, chosen)}
        if price := _price(target, launch, request):
            nodes["price"] = price.kept()
    submitted(record_submission(request.directory_here, target.name, handle, options, nodes))
    if target.attend is None:
        say(request.run)
        if request.program.on_checkpoint is not None:
            print(f"`trainway evaluate {request.run}` launches the evaluations of its checkpoints", file=sys.stderr)
        return 0
    if request.program.on_checkpoint is None:
        return target.attend(request, chosen)
    with evaluated_meanwhile(request.directory_here):
        return target.attend(request, chosen)


def _check_evaluations(target: AnyTarget, launch: Launch) -> None:
    """Raise UsageError if the evaluation of a run cannot be submitted, before the run is submitted."""
    # All points of a sweep have the same job file, and so the same evaluation.
    for point in evaluation_points(launch.points[0].program):
        on_checkpoint = launch.points[0].program.on_checkpoint
        group = on_checkpoint.group if on_checkpoint and target.orchestrators else None
        typed = [options_from(target.options, point.program.options.get(target.name, {}), target.name)]
        first = Launch(
            [point],
            launch.platform_file,
            group=group,
            dry_run=True,
            source=launch.source,
            options=typed,
            loaded=launch.loaded,
        )
        first.check_code()
        with contextlib.redirect_stderr(io.StringIO()):
            # A dry run prints the price and the memory of the run, and not of its evaluation.
            requests = target.prepare(first)
        check_jobs(target, requests, typed)


def _kept_of_evaluations(program: Program, request: Any) -> dict[str, Any]:
    """Return the entries of a run's record about its evaluations, and upload their code.

    The entries are the directory of their job file, their team, and the SHA-256 of their code.
    """
    if program.on_checkpoint is None:
        return {}
    kept: dict[str, Any] = {"evaluation_directory": str(program.on_checkpoint.directory.absolute())}
    if isinstance(request, Request):
        evaluation = evaluation_points(program)[0].program
        kept["evaluation_team"] = team_of(request.hand_off, evaluation.team)
        if evaluation.code is not None:
            location = sync(
                Path(evaluation.code),
                request.hand_off,
                team=evaluation.team,
                most_bytes=evaluation.code_limit * 2**20,
            )
            kept["evaluation_code_digest"] = digest_of(location)
    return kept


def adopt(target: AnyTarget, launch: Launch, options: Mapping[str, Any], record: RunRecord, registry: Registry) -> bool:
    """Return whether the target has the job of a run whose record lacks it, and complete the record in this case.

    A launch that was killed while it submitted the run leaves such a record.
    """
    (point,) = launch.points
    typed = options_from(target.options, {**point.program.options.get(target.name, {}), **options}, target.name)
    (request,) = target.prepare(replace(launch, options=[typed]))
    handle = None if target.find is None else target.find(request, typed)
    if handle is None:
        return False
    kept: dict[str, Any] = {
        "platform_file": str(launch.platform_file),
        "group": launch.group,
        **_kept_of_code(launch, request),
    }
    kept |= {"image": launch.image, "target": options_record(typed)}
    kept |= {"allow_tcp": True} if launch.allow_tcp else {}
    kept |= {} if launch.evaluation is None else {"evaluation": asdict(launch.evaluation)}
    make_run_directory(request.job_text, request.directory_here, request.kept_files)
    submitted = record_submission(request.directory_here, target.name, handle, kept, request.nodes)
    registry.write(record.taken(submitted))
    return True


def _kept_of_code(launch: Launch, request: Any) -> dict[str, Any]:
    """Return the entries of a run's record about its code."""
    location, hand_off = (request.code, request.hand_off) if isinstance(request, Request) else (None, None)
    return code_record(launch.code_directory, location, launch.archive, hand_off)


def resume(name: str, code: str | None = None, *, from_scratch: bool = False) -> int:
    """Resume a run from its latest checkpoint on the same target with the same options. Return the exit status.

    A run of a platform has the code of its launch again, or that of the directory `code`. With `from_scratch`, a run
    whose checkpoints are gone begins anew. Raises UsageError for a run that has not ended.
    """
    run = find_run(name)
    record = read_launch(run)
    target = target_named(record["target"], cannot="resumed")
    phase = target.state(record["handle"]).phase
    if phase in _UNFINISHED:
        fix = f"`trainway stop {name}` ends it, `trainway logs --follow {name}` shows it"
        raise usage_error(f"{name} cannot be resumed", why=f"it is {phase.value}", fix=fix)
    options = record["options"]
    evaluation = EvaluatedCheckpoint(**options["evaluation"]) if "evaluation" in options else None
    archive = recorded_code(name, options, runs_again=code is None) if target.orchestrators else None
    points = recorded_points(run, options, evaluation, is_here=not target.orchestrators)
    _check_team(name, record, points[0].program)
    if from_scratch:
        points = [replace(point, program=replace(point.program, from_scratch=now())) for point in points]
    launch = Launch(
        points,
        platform_file_of(record, target, f"{name} cannot be resumed"),
        run=run.name if target.orchestrators else str(run),
        group=options.get("group"),
        code=code or (None if target.orchestrators else options.get("code")),
        image=options.get("image"),
        allow_tcp=options.get("allow_tcp", False),
        lock=lock if (lock := run / LOCK).is_file() else None,
        resumed=True,
        archive=archive,
        evaluation=evaluation,
    )
    chosen = options["target"] if "target" in options else _earlier(options)
    return start(target, launch, options_of_anybody(target.options, chosen) if "registry" in record else chosen)


def _check_team(name: str, record: Mapping[str, Any], program: Program) -> None:
    """Raise UsageError if the job file in a record is of another team than the record.

    Else a record of one team could start a job of another one.
    """
    team = record.get("registry", {}).get("team")
    if team is not None and program.team != team:
        why = f"its record is of the team {team}, and the job file in the record is of {program.team or 'no team'}"
        fix = f"`trainway launch` starts runs/{name}/job.yaml as a new run, if you know who wrote it"
        raise usage_error(f"{name} cannot be resumed", why=why, fix=fix)


def recorded_points(
    run: Path, options: Mapping[str, Any], evaluation: EvaluatedCheckpoint | None = None, *, is_here: bool
) -> list[Point]:
    """Return the program of a run by the directory of its record. `options` are those of its launch.json.

    If the run `is_here`, the job file of its evaluations has paths relative to the directory from which the run was
    launched. The record of another run names no file of this machine. Raises UsageError for one that does.
    """
    program = load_program(run / "job.yaml") if is_here else load_recorded_program(run)
    if is_here and program.on_checkpoint is not None and "evaluation_directory" in options:
        directory = Path(options["evaluation_directory"])
        program = replace(program, on_checkpoint=replace(program.on_checkpoint, directory=directory))
    return [Point(program if evaluation is None else evaluating(program, evaluation), {})]


def platform_file_of(record: Mapping[str, Any], target: AnyTarget, what: str) -> Path:
    """Return the platform file of a run by its launch.json.

    The file of a run with a record on its platform is that of the last deploy, from the account. If the account does
    not have it, a file of that platform is used: the one that the record names, or platform.yaml in the current
    directory. Other people write records, so that a record could name another platform's file.

    Raises UsageError, with `what`, if there is none.
    """
    stated = Path(record["options"]["platform_file"])
    if not target.orchestrators:
        return stated
    why, there = f"its platform file {stated} is not on this machine", None
    if "registry" in record:
        there = platform_of(record)
        try:
            return kept_platform_file(there)
        except UsageError as error:
            why = " ".join(str(error).split())
    for file in (stated, PLATFORM_FILE):
        if file.is_file() and (there is None or _describes(file, there)):
            return file
    raise usage_error(what, why=why, fix=f"go to a directory with {PLATFORM_FILE}, the file of that platform")


def _describes(file: Path, platform: DeployedPlatform) -> bool:
    """Return whether a file is the platform file of a platform."""
    try:
        return connected_by(file) == platform
    except SpecError:
        return False


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
