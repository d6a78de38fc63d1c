"""What a platform is for, and which Regions, zones, and ways of buying there are for it."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trainway.spec.errors import usage_error
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.slurm.node_packages import ARCHITECTURE

ON_DEMAND, SPOT, BLOCK, RESERVATION, PLAN = "on-demand", "spot", "capacity-block", "reservation", "training-plan"
ADMIN: Final = "arn:aws:iam::111122223333:role/Admin"
RANGE: Final = "10.0.0.0/16"


@dataclass(frozen=True)
class Wishes:
    """The answers that describe a platform. The defaults are those that the questions propose."""

    name: str = "trainway"
    instance_type: str = "p5.48xlarge"
    count: int = 1
    orchestrator: Orchestrator = Orchestrator.EKS
    region: str = "us-west-2"
    capacity: str = ON_DEMAND
    """`on-demand`, `spot`, `reservation:ID`, `capacity-block:ID`, or the ARN of a training plan."""
    admin: str | None = ADMIN
    """ARN of the role that administers the cluster. Slurm needs none."""
    file_system: bool = True
    """Whether the platform has an FSx for Lustre file system. HyperPod requires one."""
    start: str | None = None
    """When a block or a plan starts and ends, as the platform file has it. None if the file does not say."""
    end: str | None = None
    zone: str | None = None
    """The zone of the nodes. None for the first one that has them."""
    cidr: str = RANGE
    """CIDR block of the new VPC, or of the new subnets in `existing`."""
    existing: Mapping[str, Any] | None = None
    """The section `network.existing`, or None for a new VPC."""
    teams: tuple[tuple[str, int], ...] = ()
    """Names of teams, and the nodes that each is guaranteed."""


def regions_for(instance_type: str, orchestrator: Orchestrator, *, file_system: bool = True) -> list[str]:
    """Return the Regions in which such a platform can be, those with the most zones of the type first.

    A platform with a `file_system` can only be where FSx for Lustre has the default type of file systems.
    """
    offerings = load_offerings()
    lustre, hyperpod = service_facts().lustre, service_facts().hyperpod
    if orchestrator.is_hyperpod and load_catalogue()[instance_type].hyperpod_name is None:
        return []
    found = [
        region
        for region in offerings.regions_with(instance_type)
        if (not file_system or region in lustre.regions)
        and (orchestrator is Orchestrator.EKS or region in hyperpod.regions)
    ]
    return sorted(found, key=lambda region: (-len(offerings.zones_with(instance_type, region)), region))


def capacities_for(instance_type: str, orchestrator: Orchestrator) -> list[str]:
    """Return the ways to buy a type with an orchestrator, as `Wishes.capacity` begins."""
    kinds = load_catalogue()[instance_type].capacity_kinds
    if orchestrator is Orchestrator.EKS:
        return [kind for kind in (ON_DEMAND, SPOT, RESERVATION, BLOCK) if kind in kinds]
    return [kind for kind in (ON_DEMAND, PLAN) if kind in kinds]


def zones_for(wishes: Wishes) -> list[str]:
    """Return the zones that the nodes can be in."""
    offerings = load_offerings()
    return [zone for zone in offerings.zones_with(wishes.instance_type, wishes.region) if zone in _usable(wishes)]


def zones_of(wishes: Wishes) -> list[str]:
    """Return the zone of the nodes and, for EKS, another one, because an EKS control plane is in two.

    Raises UsageError if the zones that the platform needs are not known.
    """
    usable, with_type = _usable(wishes), zones_for(wishes)
    needed = service_facts().eks.control_plane_zones if wishes.orchestrator.is_kubernetes else 1
    if not with_type or len(usable) < needed:
        raise usage_error(
            f"--region {wishes.region}",
            why="the zones that this platform needs are not known there",
            fix="use another Region, or write the file by hand and name its zones",
        )
    first = wishes.zone or with_type[0]
    return [first, *[zone for zone in usable if zone != first][: needed - 1]]


def check_type(name: str) -> None:
    """Raise UsageError if the catalogue does not have an instance type, or if no platform can have it."""
    catalogue = load_catalogue()
    if name in catalogue and catalogue[name].architecture != ARCHITECTURE:
        why = f"its processors are {catalogue[name].architecture}, and the images are built for {ARCHITECTURE}"
        raise usage_error(f"--type {name}", why=why, fix="name another type; `trainway instances` lists them")
    if why_not := catalogue.why_left_out(name):
        fix = "name another type; `trainway instances` lists them"
        raise usage_error(f"--type {name}", why=f"the platform does not support it: {why_not}", fix=fix)
    if name not in catalogue:
        near = catalogue.suggest(name)
        fix = f"did you mean {' or '.join(near)}?" if near else "`trainway instances` lists the types"
        raise usage_error(f"--type {name}", why="the catalogue has no such instance type", fix=fix)


def check_region(wishes: Wishes) -> None:
    """Raise UsageError if a Region does not exist, or does not have what the platform needs."""
    region, name, offerings = wishes.region, wishes.instance_type, load_offerings()
    if region not in offerings.zones:
        raise usage_error(
            f"--region {region}", why="AWS has no Region of this name", fix=nearest(region, offerings.zones)
        )
    elsewhere = regions_for(name, wishes.orchestrator, file_system=wishes.file_system)
    if region not in elsewhere and offerings.zones[region]:
        fix = f"use {', '.join(elsewhere)}" if elsewhere else f"name another type than {name}"
        needed = f"{name}, {wishes.orchestrator.value}, and FSx for Lustre"
        why = f"{needed if wishes.file_system else f'{name} and {wishes.orchestrator.value}'} are not all there"
        if wishes.file_system and region in regions_for(name, Orchestrator.EKS, file_system=False):
            fix += ", or --orchestrator eks with --no-file-system"
        raise usage_error(f"--region {region}", why=why, fix=fix)


def check_zone(wishes: Wishes) -> None:
    """Raise UsageError if the nodes cannot be in the zone that is wished."""
    if wishes.zone is not None and wishes.zone not in zones_for(wishes):
        zones = zones_for(wishes)
        why = f"{wishes.region} has {wishes.instance_type} in {', '.join(zones) or 'no zone that is known'}"
        raise usage_error(f"--zone {wishes.zone}", why=why, fix=nearest(wishes.zone, zones))


def nearest(word: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return a remedy for a word that is not known: those that are most like it, or how one is written."""
    near = difflib.get_close_matches(word, list(known), n=3)
    example = next(iter(known), "")
    return f"did you mean {' or '.join(near)}?" if near else f"write it as in {example}"


def _usable(wishes: Wishes) -> list[str]:
    refused = service_facts().eks.refused_zones if wishes.orchestrator.is_kubernetes else ()
    return [zone for zone in load_offerings().zones[wishes.region] if zone not in refused]
