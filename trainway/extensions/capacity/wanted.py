"""Describe the capacity to look for: instance type, number of nodes, time, and Regions."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import CapacityKind, Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


@dataclass(frozen=True)
class Wanted:
    """Nodes of one instance type for some hours, within a time, in any of some Regions.

    `start` and `end` are in UTC. None of them means now, and as late as AWS sells.
    """

    instance: Instance
    count: int
    hours: int
    kinds: tuple[CapacityKind, ...]
    regions: tuple[str, ...]
    start: datetime | None = None
    end: datetime | None = None
    hyperpod: bool = False


def group_named(platform: Platform, name: str | None, catalogue: Catalogue) -> NodeGroup:
    """Return a node group by its name, or without one the only group with accelerators.

    Raises UsageError for an unknown name, and if there is not one group to choose.
    """
    if name is not None:
        for group in platform.node_groups:
            if group.name == name:
                return group
        names = ", ".join(each.name for each in platform.node_groups)
        raise usage_error(f"--group {name}", why=f"{platform.name} has no such node group", fix=f"use one of {names}")
    found = [group for group in platform.node_groups if catalogue[group.instance_type].accelerator]
    if len(found) != 1:
        names = ", ".join(each.name for each in platform.node_groups)
        why = f"{platform.name} has {len(found)} node groups with accelerators"
        raise usage_error("no node group is chosen", why=why, fix=f"name one by --group: {names}")
    return found[0]


def kinds_for(platform: Platform, instance: Instance) -> tuple[CapacityKind, ...]:
    """Return the ways to buy nodes of a platform. HyperPod takes training plans, and EKS Capacity Blocks."""
    ahead = CapacityKind.TRAINING_PLAN if platform.orchestrator.is_hyperpod else CapacityKind.CAPACITY_BLOCK
    return tuple(kind for kind in (ahead, CapacityKind.ON_DEMAND, CapacityKind.SPOT) if kind in instance.capacity_kinds)


def utc(value: datetime) -> datetime:
    """Return a time of the command line, which has no zone, as one in UTC."""
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
