"""From a job file to a request: everything that can be wrong is found before anything is submitted."""

from __future__ import annotations

from collections.abc import Sequence

from trainway.launch.allocation import allocate, check_team
from trainway.launch.hand_off import read_hand_off, read_image
from trainway.launch.request import Request, run_name
from trainway.launch.sweep import Point
from trainway.spec.catalogue import Catalogue
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform


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
