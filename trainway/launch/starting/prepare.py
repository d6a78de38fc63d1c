"""Requests from job files. Every problem is found before anything is submitted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

from trainway.launch.job_file.programs import evaluation_program, load_program
from trainway.launch.job_file.run_image import check_image, image_by_digest
from trainway.launch.job_file.sweep import Point
from trainway.launch.job_file.training_program import with_checkpoints_of_team
from trainway.launch.node.command_check import missing_python_file
from trainway.launch.platform.known import HandOffSource, KnownPlatform, known_platform
from trainway.launch.platform.locations import scheme_of
from trainway.launch.program.allocation import Allocation, allocate
from trainway.launch.program.environment import EFA_NETWORK, NCCL_NET
from trainway.launch.program.launcher_conflicts import conflicts_of
from trainway.launch.program.locations import check_names, needs_hand_off
from trainway.launch.program.lost_nodes import demand_of
from trainway.launch.program.on_checkpoint import EvaluatedCheckpoint
from trainway.launch.program.program import LockedPackages, Program
from trainway.launch.program.request import LocalRequest, Request, run_name
from trainway.launch.registry.connections import connections
from trainway.launch.registry.platform_file import platform_file_named
from trainway.launch.runs.names import check_directory_name, check_run_name
from trainway.launch.runs.run_directory import default_run_directory
from trainway.launch.starting.code import sync
from trainway.launch.starting.job_checks import (
    PIP_HERE,
    Asked,
    check_memory,
    check_node_groups,
    check_tracker_packages,
    check_use,
    memory_line,
    with_platform_mlflow,
)
from trainway.launch.starting.job_packages import (
    TargetPython,
    lock_of,
    lock_of_record,
    python_here,
    python_of_named_image,
)
from trainway.launch.starting.run_code import RecordedCode
from trainway.parts.extras import require_extras
from trainway.spec.document import read_document
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError


@dataclass(frozen=True)
class Launch:
    """The arguments of `trainway launch` that all targets share.

    `run` is the name, or on this machine the directory, of the only run. `group` is the node group to use. `code` is a
    directory that is synced first. `image` is the name of the platform's image to run in. With `allow_tcp`, NCCL may
    use TCP between nodes with EFA. `lock` is the lock of the packages that the run had before. A `dry_run` uploads and
    writes nothing, and prints the launcher's own files only if it is `full`. `source` says where the hand-off is from.
    `run` is continued if it is `resumed`. `archive` is the code in the record from which the run is started. It runs
    again, unless `code` names a directory. `evaluation` is the checkpoint that the only run evaluates. `options` are
    the typed options of the target, one for each of the `points`. Without them, the options have their defaults.
    `loaded` is the platform of the file, if it has been read already, for example with rules that are accepted.
    """

    points: Sequence[Point]
    platform_file: Path
    run: str | None = None
    group: str | None = None
    code: str | None = None
    image: str | None = None
    allow_tcp: bool = False
    dry_run: bool = False
    full: bool = False
    source: HandOffSource = "deployed"
    lock: Path | None = None
    resumed: bool = False
    archive: RecordedCode | None = None
    evaluation: EvaluatedCheckpoint | None = None
    options: Sequence[Any] = ()
    loaded: Platform | None = None

    @property
    def code_directory(self) -> str | None:
        """The directory with the code: the one that the launch names, or else the one that the job file names.

        With an `archive`, the job file is from a record, which chooses no directory of this machine.
        """
        return self.code or next((point.program.code for point in self.points if self.archive is None), None)

    def check_code(self) -> None:
        """Raise UsageError if the directory with the code, or the Python file that a program starts with, is absent."""
        if self.code_directory is None:
            return
        directory = Path(self.code_directory)
        for program in (point.program for point in self.points if point.program.started_by is not None):
            what = f"{program.name} cannot be launched"
            if not directory.is_dir():
                fix = "set `run.code` to a directory, relative to the job file"
                raise usage_error(what, why=f"there is no directory {directory}", fix=fix)
            if missing := missing_python_file(list(program.command), directory):
                fix = f"name a file of {directory} in `run.command`, or set `run.code` to the directory that has it"
                raise usage_error(what, why=f"there is no file {directory / missing}", fix=fix)

    def locked(self, program: Program, python: Callable[[], TargetPython], *, resolve_new: bool = True) -> Program:
        """Return a program with the lock of its packages for a Python, which is asked for if there are packages.

        Without `resolve_new`, the index is not asked for versions.

        Raises UsageError if the packages do not fit into that Python.
        """
        if program.packages is None:
            return program
        if self.lock is not None:
            return replace(program, lock=LockedPackages(self.lock.read_text(encoding="utf-8")))
        if self.archive is not None:
            return replace(program, lock=lock_of_record(program.packages, python()))
        lock = lock_of(program.packages, python(), write=not self.dry_run, resolve_new=resolve_new)
        return replace(program, lock=lock)

    @cached_property
    def platform(self) -> Platform:
        """Return the platform that a file describes. Raises SpecError with every problem of the file."""
        return self.loaded or load_platform(self.platform_file)

    @cached_property
    def known(self) -> KnownPlatform:
        """Return what is known of the platform, from the `source`. Raises UsageError as `known_platform` does."""
        return known_platform(self.platform, load_catalogue(), self.source)


def check_job(file: Path, platform: Platform | None = None) -> tuple[str, list[str]]:
    """Check a job file and the code that it names, and that it suits the node groups of a platform, if one is given.

    Return what the job is, and the warnings. Raises SpecError with every problem of the file, and UsageError if its
    code is absent.
    """
    program = load_program(file)
    points = [Point(program, {}), *evaluation_points(program)]
    for point in points:
        Launch([point], file).check_code()
    if platform is not None:
        check_node_groups(file, program, platform, load_catalogue())
    conflicts, document = (
        conflicts_of(program, None if program.code is None else Path(program.code)),
        read_document(file),
    )
    if wrong := [document.problem(each.key, each.why, each.fix) for each in conflicts if each.is_certain]:
        raise SpecError(wrong)
    programs = [point.program for point in points]
    described = [f"{each.name} on {each.nodes} node{'s' if each.nodes > 1 else ''}" for each in programs]
    return ", and for its checkpoints ".join(described), [f"{each.why}; {each.fix}" for each in conflicts]


def evaluation_points(program: Program) -> list[Point]:
    """Return the program that evaluates the first checkpoint, or nothing if none does.

    It is checked before there is a checkpoint.
    """
    if program.on_checkpoint is None:
        return []
    first = EvaluatedCheckpoint(
        program.name, program.on_checkpoint.every, program.on_checkpoint.marker.rpartition("/")[0]
    )
    return [Point(evaluation_program(program.on_checkpoint, first, program.team), {})]


def requests_here(launch: Launch) -> list[LocalRequest]:
    """Return a request for each job of a launch on this machine.

    Reads the platform only if a job uses its storage. Raises UsageError if that platform is not deployed. Except for a
    dry run, raises it also if the packages of the extra `training` are not installed.
    """
    if not launch.dry_run:
        for point in launch.points:
            require_extras("a job on this machine", *point.program.extras)
    python = cache(python_here)
    for point in launch.points:
        with_platform_mlflow(point.program, None)
        check_tracker_packages(point.program, python, PIP_HERE)
        if needs_hand_off(point.program):
            launch = replace(launch, platform_file=_platform_file_here(launch, point.program))
    return [
        LocalRequest(
            launch.locked(point.program, python),
            Path(check_directory_name(launch.run)) if launch.run else default_run_directory(point.program.name),
            launch.known.hand_off if needs_hand_off(point.program) else None,
            launch.code_directory,
        )
        for point in launch.points
    ]


def _platform_file_here(launch: Launch, program: Program) -> Path:
    """Return the platform file for a local program that uses the storage of a platform.

    Raises UsageError if no platform is known.
    """
    if not launch.platform_file.exists() and not list(connections()):
        location = next(filter(scheme_of, program.locations))
        raise usage_error(
            f"{program.name} cannot run on this machine",
            why=f"{location} is in the storage of a platform, and there is no {launch.platform_file} here",
            fix="name the platform file with --platform, connect to the platform with `trainway connect`, or write a "
            "path of this machine in the job file",
        )
    return platform_file_named(launch.platform_file)


def requests_beside_platform(launch: Launch) -> list[Request]:
    """Return the requests of `requests_on_platform`, for jobs that are on none of the platform's nodes."""
    return _complete_requests(launch, on_platform=False)


def requests_on_platform(launch: Launch) -> list[Request]:
    """Return a request for each job of a launch on a platform, and upload the code, except in a dry run.

    Raises UsageError as `allocated_requests` does, for a job that cannot use what it names, and if the code cannot be
    synced.
    """
    return _complete_requests(launch, on_platform=True)


def _complete_requests(launch: Launch, *, on_platform: bool) -> list[Request]:
    """Return requests with the locks of their packages and the location of their code, which is uploaded."""
    requests = allocated_requests(launch, on_platform=on_platform)
    if launch.dry_run:
        lines = [memory_line(each.program, each.allocation, load_catalogue()) for each in requests]
        lines += [each.allocation.waiting(each.program.name) for each in requests if on_platform]
        # Runs of a sweep often need the same. Standard output is only what would be submitted.
        for line in filter(None, dict.fromkeys(lines)):
            print(line, file=sys.stderr)
    for line in filter(None, dict.fromkeys(_network_note(each.program, each.network) for each in requests)):
        print(f"note: {line}", file=sys.stderr)
    if not launch.resumed:
        _check_conflicts(requests, launch.code_directory)
    python = cache(lambda name: python_of_named_image(name, launch.platform, launch.platform_file))
    is_asked = Asked(ask=launch.known.deployed, dry_run=launch.dry_run)
    for request, chosen in zip_longest(requests, launch.options):
        python_of_image = partial(python, request.image_name)
        check_use(request, launch.platform, python_of_image, is_asked, kind=getattr(chosen, "kind", None))
    requests = [
        replace(
            request,
            program=launch.locked(
                request.program, partial(python, request.image_name), resolve_new=launch.known.deployed
            ),
        )
        for request in requests
    ]
    if launch.code_directory is None:
        if launch.archive and launch.archive.digest:
            print(f"code: the archive {launch.archive.digest[:12]} of the launch", file=sys.stderr)
        archived = launch.archive.location(requests[0].hand_off, requests[0].program.team) if launch.archive else None
        return [replace(request, code=archived) for request in requests]
    limit = max(request.program.code_limit for request in requests)
    location = sync(
        Path(launch.code_directory),
        requests[0].hand_off,
        # The jobs of a sweep have one job file, and with it one team.
        team=requests[0].program.team,
        upload=not launch.dry_run,
        most_bytes=limit * 2**20,
    )
    return [replace(request, code=location) for request in requests]


def _check_conflicts(requests: Sequence[Request], directory: str | None) -> None:
    """Raise UsageError for words and variables of programs that conflict with the platform, and print warnings."""
    code = None if directory is None else Path(directory)
    # The programs of a sweep often have the same conflicts.
    found = dict.fromkeys(
        (request.program.name, conflict)
        for request in requests
        for conflict in conflicts_of(request.program, code, request.allocation.ranks)
    )
    if wrong := [usage_error(f"{name} cannot be launched", why=c.why, fix=c.fix) for name, c in found if c.is_certain]:
        raise UsageError("\n".join(map(str, wrong)))
    for _, conflict in found:
        print(f"warning: {conflict.why}; {conflict.fix}", file=sys.stderr)


def allocated_requests(launch: Launch, *, on_platform: bool = True) -> list[Request]:
    """Return a request for each job of a launch, and upload nothing.

    Each job runs in the image of the launch, or else in the one that its job file or its nodes name. A resumed job has
    its checkpoints where they are. A job that is not `on_platform` is on none of the platform's nodes.

    Raises UsageError where the platform has no image, or a job does not fit it.
    """
    known, catalogue, points = launch.known, load_catalogue(), launch.points
    if launch.run is not None:
        check_run_name(launch.run)
    hand_off = known.hand_off
    _check_region(hand_off, known.platform)
    points = [replace(point, program=with_platform_mlflow(point.program, known.platform)) for point in points]
    if not launch.resumed:
        points = [
            replace(point, program=with_checkpoints_of_team(point.program, hand_off))
            if point.program.default_checkpoints
            else point
            for point in points
        ]
    allocations = []
    for point, chosen in zip_longest(points, launch.options):
        team = check_names(point.program, hand_off)
        demand = replace(demand_of(point.program, hand_off, chosen), on_platform=on_platform)
        allocations.append(allocate(point.program, hand_off, catalogue, launch.group, demand, team))
        check_memory(point.program, allocations[-1], catalogue)
    names = [
        launch.image or point.program.image or allocation.group.image or DEFAULT_IMAGE
        for point, allocation in zip(points, allocations, strict=True)
    ]
    # The jobs of a sweep often run in one image.
    first = {name: names.index(name) for name in names}
    images = {name: _image(launch, name, allocations[at], points[at].program) for name, at in first.items()}
    return [
        Request(
            point.program,
            launch.run or run_name(point.program),
            hand_off,
            images[name].pinned,
            allocation,
            image_name=name,
            network=_network(launch, allocation, images[name], on_platform=on_platform),
        )
        for point, allocation, name in zip(points, allocations, names, strict=True)
    ]


@dataclass(frozen=True)
class _Image:
    pinned: str
    has_plugin: bool
    """Whether the image is known to have AWS's plugin for NCCL."""


def _image(launch: Launch, name: str, allocation: Allocation, program: Program) -> _Image:
    """Return an image by its digest. One that the platform did not build is checked, if the platform is deployed."""
    known = launch.known
    pinned = image_by_digest(name, known.hand_off) if "@" in name else known.image(name)
    if "@" not in name and "@" not in known.hand_off.image_uris[name]:
        return _Image(pinned, has_plugin=True)
    if not known.deployed:
        return _Image(pinned, has_plugin=False)
    has_plugin = check_image(pinned, allocation, load_catalogue(), program.environment, allow_tcp=launch.allow_tcp)
    return _Image(pinned, has_plugin)


def _network(launch: Launch, allocation: Allocation, image: _Image, *, on_platform: bool) -> str | None:
    """Return the only network that NCCL may use between the nodes of a job, or None if it may use any.

    It is that of EFA, so that NCCL ends a job that would fall to TCP. A job on one node sends nothing over a network.
    On SageMaker, it is known of P4d and later types alone that a container has their EFA devices.
    """
    instance, accelerator = load_catalogue()[allocation.group.instance_type], allocation.accelerator
    if launch.allow_tcp or not image.has_plugin or allocation.nodes == 1 or not instance.efa_interfaces:
        return None
    if accelerator is None or accelerator.vendor != "nvidia":
        return None
    return EFA_NETWORK if on_platform or accelerator.nvlink_domain is not None else None


def _network_note(program: Program, network: str | None) -> str | None:
    """Return the sentence that a program chooses another network than the launcher, or None."""
    chosen = program.environment.get(NCCL_NET)
    if network is None or chosen is None or chosen.lower() == network.lower():
        return None
    return f"{program.name}: {NCCL_NET} of the job file is {chosen}, so NCCL does not have to use EFA"


def _check_region(hand_off: HandOff, platform: Platform) -> None:
    if hand_off.region != platform.region:
        raise usage_error(
            f"{platform.name} cannot be launched on in {platform.region}",
            why=f"the hand-off that was found there is of a platform in {hand_off.region}",
            fix="set `region` of the platform file to where it was deployed",
        )
