"""On-Demand Capacity Reservations, as EC2 has them."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.preflight.reservations import describe, judge, sizes
from trainway.spec.problems import KeyPath
from trainway.spec.sections.capacity import Reservation
from trainway.spec.sections.node_group import NodeGroup


@check("ec2:DescribeCapacityReservations")
def reservations(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each capacity reservation is active, and has the type, zone, and number of free instances of its group."""
    groups = dict[str, list[tuple[KeyPath, NodeGroup]]]()
    for index, group in enumerate(inquiry.platform.node_groups):
        if isinstance(group.capacity, Reservation):
            key: KeyPath = ("node_groups", index, "capacity", "reservation")
            groups.setdefault(group.capacity.reservation, []).append((key, group))
    for identifier, sharing in groups.items():
        found = describe(inquiry, identifier)
        if found is None:
            yield error(
                f"there is no capacity reservation {identifier}",
                why=f"EC2 lists none with this ID for account {inquiry.aws.number} in {inquiry.aws.region}",
                fix="`aws ec2 describe-capacity-reservations` lists those that you can use",
                key=sharing[0][0],
            )
            continue
        yield from judge(inquiry, found, sharing, "reservation")
        yield from sizes(inquiry, found, sharing, "enlarge the reservation")
