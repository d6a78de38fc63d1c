"""Rules about capacity that was bought ahead of time: who shares it, and when it starts and ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainway.spec.capacity.capacity_times import drains_before_end, in_ultraserver, terminates_before_end
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, rule
from trainway.spec.sections.capacity import CapacityBlock, Reservation, TimedCapacity, TrainingPlan, minute
from trainway.spec.sections.node_group import NodeGroup


@rule
def a_reservation_is_of_one_type_in_one_zone(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Groups that share a reservation, a Capacity Block, or a training plan have its instance type, and its zone.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html (read 2026-11-21)
    """
    first = dict[str, NodeGroup]()
    for index, group in enumerate(platform.node_groups):
        identifier = _identifier(group)
        if identifier is None:
            continue
        other = first.setdefault(identifier, group)
        for key, ours, theirs in (
            ("instance_type", group.instance_type, other.instance_type),
            ("zone", platform.zone_of(group), platform.zone_of(other)),
        ):
            if ours != theirs:
                reason = f"{identifier} is the capacity of group {other.name}, too, whose {key} is {theirs}"
                yield ("node_groups", index, key), reason, f"write {theirs}, or the reservation of this group"


@rule
def a_capacity_block_has_one_start_one_end_and_instances_for_all_its_groups(
    platform: Platform, _catalogue: Catalogue
) -> Iterator[Breach]:
    """Groups that share a Capacity Block name the same times, and have no more instances than a block can have."""
    shared = dict[str, list[tuple[int, NodeGroup, CapacityBlock]]]()
    for index, group in enumerate(platform.node_groups):
        if isinstance(group.capacity, CapacityBlock):
            shared.setdefault(group.capacity.capacity_block, []).append((index, group, group.capacity))
    most = service_facts().capacity_blocks.most_instances
    for identifier, (first, *others) in shared.items():
        _, group, block = first
        instances = group.count
        for index, other, others_block in others:
            for key, ours, theirs in (
                ("start", others_block.start, block.start),
                ("end", others_block.end, block.end),
            ):
                if ours and theirs and ours != theirs:
                    reason = (
                        f"{identifier} is the block of group {group.name}, too, where its {key} is {minute(theirs)}"
                    )
                    yield (
                        ("node_groups", index, "capacity", key),
                        reason,
                        f"write {minute(theirs)} in both, or in neither",
                    )
            instances += other.count
            if instances > most >= other.count and group.count <= most:
                reason = f"with it, the groups of {identifier} have {instances} instances, and a block at most {most}"
                yield (
                    ("node_groups", index, "count"),
                    reason,
                    "write what the block has, or another block for this group",
                )
                break


@rule
def training_plans_are_of_one_account(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A cluster uses the training plans of its own account, so all of them are of one."""
    accounts = [
        (index, group.capacity.training_plan.split(":")[4])
        for index, group in enumerate(platform.node_groups)
        if isinstance(group.capacity, TrainingPlan)
    ]
    for index, account in accounts[1:]:
        if account != accounts[0][1]:
            reason = f"this plan is in account {account}, and that of another group is in {accounts[0][1]}"
            yield ("node_groups", index, "capacity"), reason, "use plans of the account that the platform is in"


def _identifier(group: NodeGroup) -> str | None:
    match group.capacity:
        case Reservation(reservation=identifier) | CapacityBlock(capacity_block=identifier):
            return identifier
        case TrainingPlan(training_plan=identifier):
            return identifier
        case _:
            return None


@rule
def capacity_starts_before_it_ends(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The start of capacity is before its end, and the file names both or neither."""
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "capacity")
        capacity = group.capacity
        if not isinstance(capacity, TimedCapacity):
            continue
        if (capacity.start is None) != (capacity.end is None):
            there, missing = ("start", "end") if capacity.start else ("end", "start")
            yield (*key, there), f"it has no effect without `{missing}`", f"write `{missing}` too, or remove `{there}`"
        elif capacity.start and capacity.end and capacity.end <= capacity.start:
            reason = f"the capacity starts at {minute(capacity.start)}, and would end before that"
            yield (*key, "end"), reason, "write the end that the purchase names"


@rule
def a_capacity_block_is_one_that_ec2_sells(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A block has at most so many instances and days, and ends at a fixed time of the day.

    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-capacity-blocks.html (read 2026-11-22)
    """
    facts = service_facts().capacity_blocks
    for index, group in enumerate(platform.node_groups):
        block, key = group.capacity, ("node_groups", index)
        if not isinstance(block, CapacityBlock):
            continue
        if group.largest > facts.most_instances:
            name = "count" if group.count > facts.most_instances else "max_count"
            reason = f"a Capacity Block has at most {facts.most_instances} instances"
            yield (*key, name), reason, "write one node group for each block"
        if not block.start or not block.end or block.end <= block.start:
            continue
        if block.end.time() != facts.ends_at:
            reason = f"Capacity Blocks end at {facts.ends_at:%H:%M} UTC"
            remedy = f"write {block.end:%Y-%m-%d}T{facts.ends_at:%H:%M}Z if that is the day of the block's last hour"
            yield (*key, "capacity", "end"), reason, remedy
        elif block.end - block.start > timedelta(days=facts.longest_days + 1):
            days = (block.end - block.start).days
            reason = f"the block would last {days} days, and the longest has {facts.longest_days}"
            yield (*key, "capacity", "end"), reason, "write the start and the end that the purchase names"


@rule
def a_timed_block_has_nodes_and_time_to_drain_them(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A schedule adds one node or more, and drains them before EKS and EC2 do."""
    facts = service_facts().capacity_blocks
    for index, group in enumerate(platform.node_groups):
        block, key = group.capacity, ("node_groups", index)
        if not isinstance(block, CapacityBlock):
            continue
        if block.drain_minutes is not None and block.end is None:
            reason, remedy = "nothing drains a group whose block has no `end`", "write `start` and `end`, or remove it"
            yield (*key, "capacity", "drain_minutes"), reason, remedy
        if not block.start or not block.end or block.end <= block.start:
            continue
        if group.count == 0:
            reason = "a schedule would add no nodes when the Capacity Block starts"
            yield (*key, "count"), reason, "write the number of instances that the block has"
        least = max(timedelta(minutes=facts.eks_scales_down_minutes), terminates_before_end(group))
        drained = drains_before_end(group, block)
        if drained <= least:
            by = "EKS drains the group itself"
            if in_ultraserver(group):
                by = "EC2 terminates instances of an UltraServer"
            reason = f"{by} {_minutes(least)} minutes before the end"
            yield (*key, "capacity", "drain_minutes"), reason, f"write {_minutes(least) + 1} or more"
        elif drained >= block.end - block.start:
            reason = "the nodes would be drained before they exist"
            at = "drain_minutes" if block.drain_minutes is not None else "end"
            yield (*key, "capacity", at), reason, f"write less than {_minutes(block.end - block.start)} minutes"


def _minutes(duration: timedelta) -> int:
    return int(duration.total_seconds()) // 60
