"""Requests from job files. Every problem is found before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from trainway.launch.allocation import allocate, check_team
from trainway.launch.code import sync
from trainway.launch.hand_off import read_hand_off, read_image
from trainway.launch.locations import needs_hand_off
from trainway.launch.request import LocalRequest, Request, run_name
from trainway.launch.run_directory import default_run_directory
from trainway.launch.sweep import Point
from trainway.parts.extras import require_extras
from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import Catalogue, load_catalogue
from trainway.spec.handoff import HandOff
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Launch:
    """The arguments of `trainway launch` that all targets share.

    `run` is the name, or on this machine the directory, of the only run. `group` is the node group to use. `code` is a
    directory that is synced first. `until_step` is the step after which the job stops. A `dry_run` uploads nothing.
    """

    points: Sequence[Point]
    platform_file: Path
    run: str | None = None
    group: str | None = None
    code: str | None = None
    until_step: int | None = None
    dry_run: bool = False

    @cached_property
    def platform(self) -> Platform:
        """The platform of the file. Raises SpecError with every problem of the file."""
        return load_platform(self.platform_file)


def prepare_here(launch: Launch) -> list[LocalRequest]:
    """Return a request for each job of a launch on this machine.

    Reads the platform only if a job uses its storage. Raises UsageError if that platform is not deployed. Except for a
    dry run, raises it also if the packages of the extra `training` are not installed.
    """
    if not launch.dry_run:
        require_extras("a job on this machine", "training")
    return [
        LocalRequest(
            point.job,
            point.text,
            Path(launch.run) if launch.run else default_run_directory(point.job.name),
            read_hand_off(launch.platform) if needs_hand_off(point.job) else None,
            launch.until_step,
        )
        for point in launch.points
    ]


def prepare_on_platform(launch: Launch) -> list[Request]:
    """Return a request for each job of a launch on a platform, and upload the code, except in a dry run.

    Raises UsageError as `prepare` does, and if the code cannot be synced.
    """
    requests = prepare(
        launch.points,
        launch.platform,
        load_catalogue(),
        run=launch.run,
        group=launch.group,
        until_step=launch.until_step,
    )
    if launch.code is None:
        return requests
    location = sync(Path(launch.code), requests[0].hand_off, upload=not launch.dry_run)
    return [replace(request, code=location) for request in requests]


def prepare(
    points: Sequence[Point],
    platform: Platform,
    catalogue: Catalogue,
    *,
    run: str | None = None,
    group: str | None = None,
    until_step: int | None = None,
) -> list[Request]:
    """A request for each job; `run` is the name of the only one, `group` that of the nodes to use.

    Raises UsageError where the platform is not deployed or has no image, or a job does not fit it.
    """
    hand_off = read_hand_off(platform)
    _check_region(hand_off, platform)
    allocations = []
    for point in points:
        check_team(point.job, hand_off)
        allocations.append(allocate(point.job, hand_off, catalogue, group))
    image = read_image(platform, hand_off)
    return [
        Request(point.job, point.text, run or run_name(point.job), hand_off, image, allocation, until_step)
        for point, allocation in zip(points, allocations, strict=True)
    ]


def _check_region(hand_off: HandOff, platform: Platform) -> None:
    if hand_off.region != platform.region:
        raise usage_error(
            f"{platform.name} cannot be launched on in {platform.region}",
            why=f"the hand-off that was found there is of a platform in {hand_off.region}",
            fix="set `region` of the platform file to where it was deployed",
        )
