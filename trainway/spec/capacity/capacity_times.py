"""The times at which a group with a Capacity Block gets and loses its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainway.spec.facts.services import service_facts
from trainway.spec.sections.capacity import CapacityBlock
from trainway.spec.sections.node_group import NodeGroup

# EC2 activates a block at its start. A minute later, the Auto Scaling group does not have to retry a failed launch.
AFTER_START = timedelta(minutes=1)
# The drain begins this long before EKS's own, or before EC2 terminates an UltraServer's instances.
BEFORE_OTHERS = timedelta(minutes=5)
BEFORE_ULTRASERVER = timedelta(minutes=15)


@dataclass(frozen=True)
class CapacityTimes:
    """The times of a Capacity Block, in UTC and in order.

    A schedule adds the nodes at `raised`, and another one drains them at `drained`. EKS itself scales the group down at
    `scaled_down` if nodes are left, and EC2 terminates them from `terminated` on.
    """

    start: datetime
    raised: datetime
    drained: datetime
    scaled_down: datetime
    terminated: datetime
    end: datetime


def capacity_times(group: NodeGroup) -> CapacityTimes | None:
    """Return the times of the group's Capacity Block, or None if the group has no block or the file no times."""
    block, facts = group.capacity, service_facts().capacity_blocks
    if not isinstance(block, CapacityBlock) or block.start is None or block.end is None:
        return None
    return CapacityTimes(
        start=block.start,
        raised=block.start + AFTER_START,
        drained=block.end - drains_before_end(group, block),
        scaled_down=block.end - timedelta(minutes=facts.eks_scales_down_minutes),
        terminated=block.end - terminates_before_end(group),
        end=block.end,
    )


def failed_calls_queue(platform: str) -> str:
    """Return the name of the SQS queue for failed calls of schedules, by the platform's name."""
    return f"{platform}-capacity-failed"


def drains_before_end(group: NodeGroup, block: CapacityBlock) -> timedelta:
    """Return how long before the end of the block the nodes are drained."""
    if block.drain_minutes is not None:
        return timedelta(minutes=block.drain_minutes)
    facts = service_facts().capacity_blocks
    if in_ultraserver(group):
        return terminates_before_end(group) + BEFORE_ULTRASERVER
    return timedelta(minutes=facts.eks_scales_down_minutes) + BEFORE_OTHERS


def terminates_before_end(group: NodeGroup) -> timedelta:
    """Return how long before the end of the block EC2 begins to terminate instances."""
    facts = service_facts().capacity_blocks
    return timedelta(
        minutes=facts.ultraserver_terminates_minutes if in_ultraserver(group) else facts.terminates_minutes
    )


def in_ultraserver(group: NodeGroup) -> bool:
    """Return whether the group's instances are parts of an UltraServer."""
    return group.instance_type.partition(".")[0] in service_facts().capacity_blocks.ultraserver_families


def deployed_count(group: NodeGroup) -> int:
    """Return the number of nodes that a deploy sets.

    For capacity with times, it is 0, because a schedule sets the number.
    """
    return 0 if capacity_times(group) else group.count
