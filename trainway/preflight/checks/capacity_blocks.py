"""Capacity Blocks, as EC2 has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.preflight.reservations import describe, judge, sizes, utc
from trainway.spec.problems import KeyPath
from trainway.spec.sections.capacity import CapacityBlock
from trainway.spec.sections.node_group import NodeGroup


@check("ec2:DescribeCapacityReservations")
def capacity_blocks(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each Capacity Block exists, has the type, zone, and size of its group, and the times that the file names."""
    groups = dict[str, list[tuple[KeyPath, NodeGroup]]]()
    for index, group in enumerate(inquiry.platform.node_groups):
        if isinstance(group.capacity, CapacityBlock):
            key: KeyPath = ("node_groups", index, "capacity", "capacity_block")
            groups.setdefault(group.capacity.capacity_block, []).append((key, group))
    for identifier, sharing in groups.items():
        found = describe(inquiry, identifier)
        if found is None:
            yield error(
                f"there is no Capacity Block {identifier}",
                why=f"EC2 lists none with this ID for account {inquiry.aws.number} in {inquiry.aws.region}",
                fix="`aws ec2 describe-capacity-reservations` lists those that you can use",
                key=sharing[0][0],
            )
            continue
        yield from judge(inquiry, found, sharing, "capacity_block")
        yield from sizes(inquiry, found, sharing, "buy a larger block")
        for key, group in sharing:
            yield from _times(found, group, key)


def _times(found: Mapping[str, Any], group: NodeGroup, key: KeyPath) -> Iterator[AccountFinding]:
    """Yield the times of the file that differ from those of the block. Schedules add and drain nodes at them."""
    assert isinstance(group.capacity, CapacityBlock)
    for name, said, api in (("start", group.capacity.start, "StartDate"), ("end", group.capacity.end, "EndDate")):
        real: datetime | None = found.get(api)
        if said is not None and real is not None and utc(said) != utc(real):
            yield error(
                f"{found['CapacityReservationId']} has its {name} at {utc(real)}",
                why=f"the file says {utc(said)}, and the nodes of {group.name} are added and drained by it",
                fix=f"write {name}: {utc(real)}",
                key=(*key[:-1], name),
            )
