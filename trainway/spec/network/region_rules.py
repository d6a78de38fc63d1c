"""Regions and zones that exist, and what AWS has in them.

Each of these rules rests on a table that was right on the day on which it was read. `accept` in the platform file is
for the day after.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import Platform
from trainway.spec.rule import Breach, instance_types, path_of_image, published_rule
from trainway.spec.sections.capacity import capacity_kind
from trainway.spec.sections.orchestrator import Orchestrator

# Of a longer list, a remedy names so many.
NAMED = 6


def zone_prefix(region: str) -> str:
    """Return the start of every zone id of a Region: `usw2` for us-west-2, `apne1` for ap-northeast-1.

    The pattern is that of https://docs.aws.amazon.com/global-infrastructure/latest/regions/aws-availability-zones.html
    """
    initials = {"north": "n", "south": "s", "east": "e", "west": "w", "central": "c", "gov": "g"}
    initials |= {f"{a}{b}": a[0] + b[0] for a in ("north", "south") for b in ("east", "west")}
    first, *middle, number = region.split("-")
    return first + "".join(initials.get(word, word[0]) for word in middle) + number


@published_rule
def the_region_exists(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The Region is one that AWS has."""
    regions = load_offerings().zones
    if platform.region not in regions:
        near = difflib.get_close_matches(platform.region, list(regions), n=3) or sorted(regions)
        yield ("region",), "AWS has no Region of this name", f"write {_one_of(near)}"


@published_rule
def copies_are_in_regions_that_exist(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every Region in `image.replicate.regions` is one that AWS has."""
    regions = load_offerings().zones
    for name in platform.image_names:
        replicate = platform.of_image(name).image.replicate
        for index, region in enumerate(replicate.regions if replicate else ()):
            if region not in regions:
                near = difflib.get_close_matches(region, list(regions), n=3) or sorted(regions)
                key = path_of_image(name, ("image", "replicate", "regions", index))
                yield key, "AWS has no Region of this name", f"write {_one_of(near)}"


@published_rule
def zones_are_of_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Every zone is one of the Region's. Of Regions whose zones are not known, the beginning of the id is compared."""
    region, offerings = platform.region, load_offerings()
    if region not in offerings.zones:
        return  # reported by its own rule
    known, prefix = offerings.zones[region], zone_prefix(region)
    for index, zone in enumerate(platform.zones):
        if zone in offerings.local_zones.get(region, ()):
            if platform.orchestrator is not Orchestrator.EKS:
                reason = f"it is a Local Zone, and {platform.orchestrator.value} has no nodes there"
                yield ("zones", index), reason, "use the orchestrator eks, or zones of the Region"
        elif known and zone not in known:
            yield ("zones", index), f"it is not a zone of {region}", f"write {_one_of(known)}"
        elif not known and zone.split("-")[0] != prefix:
            yield ("zones", index), f"it is not a zone of {region}", f"ids of its zones begin with {prefix}-az"


@published_rule
def eks_takes_the_zones(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No zone is one in which EKS refuses the subnets of a control plane."""
    refused = service_facts().eks.refused_zones
    for index, zone in enumerate(platform.zones):
        if platform.orchestrator.is_kubernetes and zone in refused:
            others = [each for each in load_offerings().zones.get(platform.region, ()) if each not in refused]
            reason = "EKS refuses subnets of a cluster in this zone, and the platform has some in each of its zones"
            yield ("zones", index), reason, f"write {_one_of(others)}"


@published_rule
def types_are_offered_in_the_zone(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """EC2 has each instance type in the zone of its nodes. Nodes beside the node groups may be in any of the zones."""
    offerings, region = load_offerings(), platform.region
    for key, name in instance_types(platform):
        if name not in catalogue or not offerings.zones.get(region) or not offerings.offered.of(name):
            continue  # a name that another rule reports, or a type or Region of which no zones are known
        there = offerings.zones_and_local_zones_with(name, region)
        of_group = [platform.zone_of(platform.node_groups[key[1]])] if isinstance(key[1], int) else platform.zones
        known = {*offerings.zones[region], *offerings.local_zones.get(region, ())}
        if set(of_group) & set(there) or not set(of_group) <= known:
            continue
        if there:
            reason = f"EC2 does not have {name} in {' or '.join(of_group)}"
            yield key, reason, f"use {_one_of(there)}, for example as the first of `zones`"
        elif region not in offerings.on_demand.of(name):
            yield (
                key,
                f"EC2 does not have {name} in {region}",
                f"use {_one_of(_near(region, offerings.regions_with(name)))}",
            )


@published_rule
def types_are_sold_on_demand(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A group that is bought on demand has types with an on-demand price, of EC2 or, on HyperPod, of SageMaker.

    Types without an accelerator are not compared: the list of HyperPod's prices leaves some out in some Regions.
    """
    offerings, region = load_offerings(), platform.region
    hyperpod = platform.orchestrator.is_hyperpod
    if hyperpod and region not in service_facts().hyperpod.regions:
        return  # reported by its own rule
    prices, seller = (offerings.hyperpod, "HyperPod") if hyperpod else (offerings.on_demand, "EC2")
    for index, group in enumerate(platform.node_groups):
        if capacity_kind(group.capacity) != "on-demand":
            continue
        for number, name in enumerate(group.instance_types):
            sold = prices.of(name)
            if name not in catalogue or catalogue[name].accelerator is None:
                continue
            there = offerings.zones_with(name, region) or region in offerings.on_demand.of(name)
            if not sold or region in sold or not there:
                continue  # available on demand, or not at all, which other rules report
            tail = ("instance_type",) if number == 0 else ("or_types", number - 1)
            other = "a training plan" if hyperpod else "a Capacity Block or Spot"
            reason = f"{seller} has no on-demand price for {name} in {region}"
            yield ("node_groups", index, *tail), reason, f"buy it by {other}, or use {_one_of(_near(region, sold))}"


@published_rule
def hyperpod_is_in_the_region(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The Region has SageMaker HyperPod."""
    regions = service_facts().hyperpod.regions
    known = platform.region in load_offerings().zones
    if platform.orchestrator.is_hyperpod and known and platform.region not in regions:
        yield (
            ("region",),
            "SageMaker HyperPod is not in this Region",
            f"use {_one_of(_near(platform.region, regions))}, or the orchestrator eks",
        )


@published_rule
def fsx_has_such_file_systems_there(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """FSx for Lustre has the type of file system, PERSISTENT_2 or SCRATCH_2, and its throughput in the Region."""
    facts, lustre = service_facts().lustre, platform.storage.lustre
    offerings = load_offerings()
    local = platform.storage_zone in offerings.local_zones.get(platform.region, ())
    if lustre is None or lustre.existing or platform.region not in offerings.zones:
        return
    if platform.region in facts.regions and not local:
        return
    scratch = platform.region in facts.scratch_regions and not local
    where = platform.storage_zone if local else platform.region
    slow = local or platform.region in facts.slow_regions
    if lustre.is_scratch:
        if not scratch:
            reason = f"FSx has no Lustre file systems of the type SCRATCH_2 in {where}"
            fix = "use ssd, or another Region" if slow else "use another Region"
            yield ("storage", "lustre", "storage_class"), reason, fix
        return
    if not slow:
        reason = "FSx has no Lustre file systems of the type PERSISTENT_2 there, which the platform requires"
        instead = "write `storage_class: scratch` below `storage.lustre`, " if scratch else ""
        yield ("region",), reason, f"{instead}choose another, or adopt a file system as `storage.lustre.existing`"
        return
    throughputs = " or ".join(map(str, facts.slow_regions_throughputs))
    reason = f"in {where}, FSx has Lustre file systems of {throughputs} MB/s per TiB on SSD, without EFA"
    if lustre.is_elastic:
        yield ("storage", "lustre", "storage_class"), reason, "use ssd, or another Region"
    elif lustre.efa:
        yield ("storage", "lustre", "efa"), reason, "write `efa: false`, or use another Region"
    elif lustre.throughput_mbps_per_tib not in facts.slow_regions_throughputs:
        yield ("storage", "lustre", "throughput_mbps_per_tib"), reason, f"write {throughputs}, or use another Region"


def _near(region: str, others: Iterable[str]) -> list[str]:
    """Return Regions in alphabetical order, those of the same part of the world first."""
    return sorted(others, key=lambda other: (other.split("-")[0] != region.split("-")[0], other))


def _one_of(names: Iterable[str]) -> str:
    """Return names as alternatives, the first NAMED of a longer list."""
    listed = list(names)
    shown = listed[:NAMED]
    if len(listed) > NAMED:
        return f"{', '.join(shown)}, or {len(listed) - NAMED} others"
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
