"""Zones: each named once, and enough of them."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator


@rule
def zones_are_named_once(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No zone stands twice."""
    for index, zone in enumerate(platform.zones):
        if zone in platform.zones[:index]:
            yield ("zones", index), "the zone stands twice", "name each zone once"


@rule
def eks_has_its_zones(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """An EKS control plane is spread over two zones or more."""
    needed = service_facts().eks.control_plane_zones
    if platform.orchestrator.is_kubernetes and len(set(platform.region_zones)) < needed:
        local = ", and a Local Zone is none of them" if set(platform.zones) - set(platform.region_zones) else ""
        yield (
            ("zones",),
            f"an EKS control plane needs subnets in {needed} zones{local}",
            "add a second zone id; nodes still go to the first zone only",
        )


@rule
def node_group_zones_are_listed(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A group's zone is one that the platform has subnets in. On EKS, it may be a Local Zone of the Region.

    A managed node group has nodes in a Local Zone, and the control plane has no subnet there:
    https://docs.aws.amazon.com/eks/latest/userguide/local-zones.html (read 2026-11-25)
    """
    local = load_offerings().local_zones.get(platform.region, ())
    for index, group in enumerate(platform.node_groups):
        if group.zone in local and platform.orchestrator is Orchestrator.EKS:
            continue
        if group.zone in local:
            reason = f"it is a Local Zone, and {platform.orchestrator.value} has no nodes there"
            yield ("node_groups", index, "zone"), reason, "use the orchestrator eks, or another zone"
        elif group.zone and group.zone not in platform.zones:
            remedy = f"use one of {', '.join(platform.zones)}, or add it to `zones`"
            yield ("node_groups", index, "zone"), "the platform has no subnets in this zone", remedy
