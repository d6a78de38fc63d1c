"""Capacity that starts and ends: the times that the file names."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from trainway.spec.derived.capacity_times import drains_before_end, in_ultraserver, terminates_before_end
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.capacity import CapacityBlock, TimedCapacity, minute


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
