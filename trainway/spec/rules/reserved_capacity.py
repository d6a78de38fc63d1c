"""Rules about capacity that was bought ahead of time, from which several groups take nodes."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.capacity import CapacityBlock, Reservation, TrainingPlan, minute
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
