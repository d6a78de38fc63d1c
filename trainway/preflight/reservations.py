"""Capacity that EC2 keeps for the account: what reservations and Capacity Blocks have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, error, warning
from trainway.spec.jobs.obtainable import obtainable, supply_of
from trainway.spec.problems import KeyPath
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.teams.shares import guaranteed_nodes

# States: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html (read 2026-11-25)
COMES: Final = frozenset({"pending", "scheduled", "payment-pending", "assessing", "delayed"})
LINUX: Final = "Linux/UNIX"
# The number of instances of a Capacity Block that has not started.
SIZE_TAG: Final = "aws:ec2capacityreservation:incrementalRequestedQuantity"


def describe(inquiry: Inquiry, identifier: str) -> dict[str, Any] | None:
    """Return a capacity reservation that the account owns or that is shared with it, or None. Raises NotAnswered."""
    absent = ["InvalidCapacityReservationId.NotFound", "InvalidCapacityReservationId.Malformed"]
    answer = inquiry.aws.ask(
        "ec2", "describe_capacity_reservations", CapacityReservationIds=[identifier], absent=absent
    )
    return next(iter(answer["CapacityReservations"]), None) if answer else None


def nodes_of(groups: Sequence[tuple[KeyPath, NodeGroup]]) -> int:
    """Return the number of nodes of all groups that share a reservation."""
    return sum(group.count for _, group in groups)


def reserves_too_few(
    inquiry: Inquiry, what: str, total: int, groups: Sequence[tuple[KeyPath, NodeGroup]], remedy: str
) -> Iterator[AccountFinding]:
    """Yield a warning if groups grow beyond their reserved instances, or teams are guaranteed more nodes than these.

    The nodes beyond are launched into the same reservation, so that EC2 or HyperPod cannot start them. `what` names the
    reservation, and `remedy` says how it gets more instances.
    """
    supply, names = supply_of(inquiry.platform, inquiry.catalogue), [group.name for _, group in groups]
    sharing = [each for each in supply.node_groups if each.name in names]
    grown = sum(obtainable(supply, each).at_most.nodes for each in sharing)
    of_teams = guaranteed_nodes(inquiry.platform).values()
    guaranteed = sum(nodes[name] for nodes in of_teams for name in names)
    reasons = [
        *([f"{' and '.join(names)} may grow to {grown} nodes"] if grown > total else []),
        *([f"the guarantees of the teams need {guaranteed} of its nodes"] if guaranteed > total else []),
    ]
    if reasons:
        lower = " and ".join(
            [*(["max_count"] if grown > total else []), *(["the guarantees"] if guaranteed > total else [])]
        )
        yield warning(
            f"{what} has {total} instances",
            why=f"{', and '.join(reasons)}, which start in it alone",
            fix=f"{remedy}, or lower {lower} to {total}",
            key=groups[0][0],
        )


def judge(
    inquiry: Inquiry, found: Mapping[str, Any], groups: Sequence[tuple[KeyPath, NodeGroup]], kind: str
) -> Iterator[AccountFinding]:
    """Yield what is wrong with the reservation of some groups: its kind, type, zone, system, and state."""
    identifier, (key, group) = found["CapacityReservationId"], groups[0]
    if (found.get("ReservationType", "default") == "capacity-block") != (kind == "capacity_block"):
        other = "reservation" if kind == "capacity_block" else "capacity_block"
        yield error(
            f"{identifier} is no {kind.replace('_', ' ')}",
            why=f"EC2 lists it as a {other.replace('_', ' ')}, which nodes are launched into in another way",
            fix=f"write capacity: {{{other}: {identifier}}}",
            key=key,
        )
    if found.get("InstanceType") != group.instance_type:
        yield error(
            f"{identifier} is for {found.get('InstanceType')}",
            why=f"the nodes of {group.name} are {group.instance_type}, and cannot use it",
            fix=f"write instance_type: {found.get('InstanceType')}, or the id of another one",
            key=key,
        )
    if (zone := found.get("AvailabilityZoneId")) != inquiry.platform.zone_of(group):
        yield error(
            f"{identifier} is in {zone}",
            why=f"the nodes of {group.name} are in {inquiry.platform.zone_of(group)}",
            fix=f"write zone: {zone} in the group, with this zone in `zones`",
            key=key,
        )
    if found.get("InstancePlatform", LINUX) != LINUX:
        yield error(
            f"{identifier} is for {found['InstancePlatform']}",
            why=f"the nodes run {LINUX}, and EC2 compares the two",
            fix="reserve capacity for Linux/UNIX",
            key=key,
        )
    # Instances of another tenancy do not match a reservation, and nodes have the tenancy of their VPC, `default`.
    # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/using-capacity-reservations.html (read 2026-11-30)
    if found.get("Tenancy", "default") != "default":
        yield error(
            f"{identifier} is of the tenancy {found['Tenancy']}",
            why="nodes have the tenancy default, and EC2 compares the two",
            fix="reserve capacity of the tenancy default",
            key=key,
        )
    yield from _state(inquiry, found, key)
    if kind == "reservation":
        yield from _end(inquiry, found, key)


def _end(inquiry: Inquiry, found: Mapping[str, Any], key: KeyPath) -> Iterator[AccountFinding]:
    """Yield a warning if an active reservation ends, although its group has no end.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-using.html (read 2026-11-30)
    """
    identifier, end = found["CapacityReservationId"], found.get("EndDate")
    if end is not None and end > inquiry.now and found.get("State", "active") == "active":
        yield warning(
            f"{identifier} ends {hours_until(inquiry.now, end)}",
            why="its group has no end. Then running nodes stay, at the price on demand, and none is replaced or added",
            fix=f"aws ec2 modify-capacity-reservation --region {inquiry.aws.region} "
            f"--capacity-reservation-id {identifier} --end-date-type unlimited",
            key=key,
        )


def _state(inquiry: Inquiry, found: Mapping[str, Any], key: KeyPath) -> Iterator[AccountFinding]:
    identifier, state, end = found["CapacityReservationId"], found.get("State", "active"), found.get("EndDate")
    if state in COMES:
        start = found.get("StartDate")
        yield warning(
            f"{identifier} is {state}",
            why=f"nodes start with it, {hours_until(inquiry.now, start)}" if start else "no node starts before it does",
            fix="deploy then, or with count: 0",
            key=key,
        )
    elif state != "active":
        yield error(
            f"{identifier} is {state}",
            why="no node can start in it",
            fix="write the id of an active reservation",
            key=key,
        )
    elif end is not None and end <= inquiry.now:
        yield error(f"{identifier} ended at {utc(end)}", why="no node can start in it", fix="write another id", key=key)


def sizes(
    inquiry: Inquiry, found: Mapping[str, Any], groups: Sequence[tuple[KeyPath, NodeGroup]], remedy: str
) -> Iterator[AccountFinding]:
    """Yield whether a reservation has too few instances, or too few free ones, for its groups.

    `remedy` says how the groups get more reserved instances.
    """
    identifier, needed = found["CapacityReservationId"], nodes_of(groups)
    total = _total(found)
    free = found.get("AvailableInstanceCount", total)
    if total < needed:
        yield error(
            f"{identifier} has {total} instances",
            why=f"{' and '.join(group.name for _, group in groups)} start {needed} nodes in it",
            fix=f"write a count of {total} or less, or enlarge the reservation",
            key=groups[0][0],
        )
    elif found.get("State") == "active" and free < needed and not inquiry.is_deployed:
        yield error(
            f"of the {total} instances of {identifier}, {free} are free",
            why=f"{' and '.join(group.name for _, group in groups)} start {needed} nodes in it",
            fix="end the instances that use it: `aws ec2 describe-instances --filters "
            f"Name=capacity-reservation-id,Values={identifier}` lists them",
            key=groups[0][0],
        )
    if total >= needed:
        yield from reserves_too_few(inquiry, identifier, total, groups, remedy)


def _total(found: Mapping[str, Any]) -> int:
    tags = {each["Key"]: each["Value"] for each in found.get("Tags", [])}
    return max(int(found.get("TotalInstanceCount", 0)), int(tags.get(SIZE_TAG, "0") or 0))


def utc(at: datetime) -> str:
    """Format a time as the platform file has it, for example `2026-12-01T11:30Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%MZ")


def hours_until(now: datetime, at: datetime) -> str:
    """Say when something is, for example `at 2026-12-01T11:30Z, in 40 hours`."""
    hours = (at - now).total_seconds() / 3600
    return f"at {utc(at)}, in {hours:.0f} hours" if hours >= 0 else f"at {utc(at)}"
