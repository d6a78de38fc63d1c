"""Choose a platform for a job among those that a person has connected to: by fit, free nodes, and price.

Free nodes are those of the groups after their deploy, without the nodes of recorded runs that have not ended. Runs that
others started without Trainway, and nodes that an autoscaler added, are not known here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trainway.launch.platform.hand_off import read_hand_off
from trainway.launch.program.allocation import Allocation, Demand, allocate
from trainway.launch.program.locations import check_locations, check_team
from trainway.launch.program.program import Program
from trainway.launch.registry.connections import ConnectedPlatform, connections, registry_of
from trainway.launch.registry.platform_file import kept_platform_file
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.state import OLD_SECONDS
from trainway.launch.registry.store import Registry
from trainway.launch.starting.job_checks import check_memory
from trainway.price.run import NodePrice, node_price
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.jobs.obtainable import completed, obtainable
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform
from trainway.spec.problems import SpecError

# A run that has written no state waits in a queue, or starts. After this time, its record says nothing any more.
_WAITS_AT_MOST = timedelta(days=7)


@dataclass(frozen=True)
class Fit:
    """A platform that a job fits: its nodes, how many nodes of the groups are free, and the price of one."""

    connected: ConnectedPlatform
    platform: Platform
    file: Path
    allocation: Allocation
    free: int
    price: NodePrice

    @property
    def is_free(self) -> bool:
        """Return whether the groups have as many free nodes as the job needs."""
        return self.free >= self.allocation.nodes

    def sentence(self) -> str:
        """Return what speaks for and against the platform."""
        nodes, groups = self.allocation.nodes, self.allocation.groups
        names = " or ".join(group.name for group in groups)
        short = "" if self.is_free else f", {nodes - self.free} too few"
        return (
            f"{self.connected.name} in {self.connected.region}: {max(self.free, 0)} of "
            f"{sum(group.count for group in groups)} nodes of {names} are free{short}; {self.price.sentence(nodes)}"
        )


@dataclass(frozen=True)
class NoFit:
    """A platform that a job cannot run on, and why."""

    connected: ConnectedPlatform
    why: str

    def sentence(self) -> str:
        """Return why the job cannot run there."""
        return f"{self.connected.name} in {self.connected.region}: no, because {self.why}"


def choose(
    programs: Sequence[Program], catalogue: Catalogue, group: str | None, *, borrows: bool = False
) -> tuple[Fit, tuple[Fit | NoFit, ...]]:
    """Return the platform for the jobs of a launch, and what was found about each connected platform, the best first.

    Jobs that borrow, as `borrows` says, have the option `--borrow` of Slurm.

    Platforms with enough free nodes come first, then the cheaper ones. One whose price is unknown comes after those
    with a price. Raises UsageError if there is no platform, or the jobs fit none.
    """
    found = [_look(each, programs, catalogue, group, borrows=borrows) for each in connections()]
    if not found:
        fix = "`trainway connect PLATFORM --region REGION` adds one"
        raise usage_error("no platform can be chosen", why="you have connected to none", fix=fix)
    fits = sorted((each for each in found if isinstance(each, Fit)), key=_rank)
    others = tuple(each for each in found if isinstance(each, NoFit))
    if not fits:
        why = "; ".join(each.sentence() for each in others)
        raise usage_error(f"{programs[0].name} fits no platform", why=why, fix="change the job, or connect to another")
    return fits[0], (*fits, *others)


def _rank(fit: Fit) -> tuple[bool, bool, float, str]:
    usd = fit.price.usd_per_hour
    return not fit.is_free, usd is None, usd or 0.0, fit.connected.name


def _look(
    connected: ConnectedPlatform,
    programs: Sequence[Program],
    catalogue: Catalogue,
    group: str | None,
    *,
    borrows: bool,
) -> Fit | NoFit:
    try:
        file = kept_platform_file(connected)
        platform = load_platform(file)
        hand_off = completed(read_hand_off(connected), platform, catalogue)
        for program in programs:
            check_team(program, hand_off)
            check_locations(program, hand_off)
        allocations = [
            allocate(program, hand_off, catalogue, group, _demand(program, borrows=borrows)) for program in programs
        ]
        for program, allocation in zip(programs, allocations, strict=True):
            check_memory(program, allocation, catalogue)
        largest = max(allocations, key=lambda each: each.nodes)
        used = _nodes_in_use(registry_of(hand_off), largest.group.instance_type)
    except (UsageError, SpecError) as error:
        return NoFit(connected, " ".join(str(error).split()))
    now = sum(obtainable(hand_off, group).now.nodes for group in largest.groups)
    price = node_price(platform, largest.group.name, largest.group.instance_type)
    return Fit(connected, platform, file, largest, now - used, price)


def _demand(program: Program, *, borrows: bool) -> Demand:
    """Return what decides whether the job can start, before the target and its options are known."""
    return Demand(program.nodes, program.nodes, borrows or bool(program.options.get("slurm", {}).get("borrow")))


def _nodes_in_use(registry: Registry, instance_type: str) -> int:
    """Return how many nodes of a type the recorded runs have, or wait for."""
    now, used = datetime.now(UTC), 0
    for record in registry.records():
        if _is_over(record, registry, now):
            continue
        nodes = (record.launch or {}).get("nodes") or {}
        if nodes.get("instance_type") == instance_type:
            used += int(nodes["count"])
    return used


def _is_over(record: RunRecord, registry: Registry, now: datetime) -> bool:
    """Return whether a run has ended, as far as its record and its state say."""
    if record.launch is None or record.launch.get("ended") is not None:
        return True
    state = registry.state(record.team, record.run)
    if state is None:
        return now - datetime.fromisoformat(record.started) > _WAITS_AT_MOST
    return state.state != "running" or now.timestamp() - state.written > OLD_SECONDS
