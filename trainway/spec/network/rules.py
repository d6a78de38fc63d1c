"""Rules about the network: zones, and room for all subnets in a new VPC or an adopted one."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from ipaddress import IPv4Network
from itertools import combinations
from typing import Final

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.offerings import load_offerings
from trainway.spec.facts.services import service_facts
from trainway.spec.network.addressing import AddressesDoNotFit, plan_addresses
from trainway.spec.network.endpoints import interface_endpoints, makes_gateway
from trainway.spec.network.subnets import node_subnets, shared_subnets
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rule import Breach, image_rule, instance_types, rule
from trainway.spec.sections.fields import PRIVATE_RANGES
from trainway.spec.sections.orchestrator import Orchestrator


@rule
def addresses_fit(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Every subnet finds room in the VPC's range."""
    if any(name not in catalogue for _, name in instance_types(platform)):
        return  # reported by its own rule; there is nothing to size
    try:
        plan_addresses(platform, catalogue)
    except AddressesDoNotFit as error:
        yield error.key, str(error), error.remedy


@rule
def adopted_subnets_are_planned_ones(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Each subnet of an existing network takes the place of a planned subnet in the same zone."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    needs = {n.name: n for n in (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))}
    for name, adopted in existing.subnets.items():
        key: KeyPath = ("network", "existing", "subnets", name)
        if name not in needs:
            yield key, "the platform has no subnet of this name", f"its subnets are {', '.join(needs)}"
        elif adopted.zone != needs[name].zone:
            remedy = "adopt a subnet of that zone, or change `zones` or the group's `zone`"
            yield (*key, "zone"), f"the plan has {name} in {needs[name].zone}", remedy


@rule
def an_existing_network_says_where_new_subnets_go(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """Subnets that are made in an existing VPC need a range there, and a route table."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    needs = (*shared_subnets(platform, catalogue), *node_subnets(platform, catalogue))
    made = [need.name for need in needs if need.name not in existing.subnets]
    if made and "cidr" not in platform.network.model_fields_set:
        reason = f"it has no `cidr`, and {', '.join(made)} must be made somewhere"
        yield ("network",), reason, "name a free range of the VPC as `cidr`, or subnets to use for all of them"
    if existing.route_table_id is None and (made or makes_gateway(platform)):
        used_by = ", ".join(made) or "the endpoint of S3"
        yield (
            ("network", "existing"),
            f"it has no `route_table_id`, which {used_by} needs",
            "name a private route table",
        )


@rule
def a_closed_network_has_no_proxy(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """A proxy leads to the internet, which a closed network does not reach."""
    if platform.network.proxy and platform.network.is_closed:
        reason = (
            "builds of a closed network fetch nothing; delivery/supply.sh takes the proxy of the shell that runs it"
        )
        yield ("network", "proxy"), reason, "remove it, or write access: private"


@image_rule
def a_login_is_for_an_index(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """`image.build.pip_login` is the login to `image.build.pip_index`."""
    if platform.image.build.pip_login and platform.image.build.pip_index is None:
        yield ("image", "build", "pip_login"), "pypi.org has no login", "write pip_index, or remove pip_login"


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


KEY: Final[KeyPath] = ("network", "existing")
# What no VPC adds whose primary block is in one of the private ranges, beside the other two of these.
# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html#add-cidr-block-restrictions (read 2026-11-30)
_NEVER_BESIDE: Final = IPv4Network("198.19.0.0/16")
_FIRST, _BESIDE_FIRST = IPv4Network("10.0.0.0/16"), IPv4Network("10.0.0.0/15")
AGAIN: Final = "run `trainway adopt` again, and write what it prints"


@rule
def an_existing_vpc_is_one_that_ec2_has(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Blocks of a VPC do not overlap."""
    existing = platform.network.existing
    if existing is None:
        return
    for index, block in enumerate(existing.cidrs):
        if other := next((each for each in existing.cidrs[:index] if each.overlaps(block)), None):
            yield (*KEY, "cidrs", index), f"it overlaps {other}, and the blocks of a VPC do not", AGAIN


@rule
def subnets_of_an_existing_vpc_are_ones_that_ec2_has(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Adopted subnets are inside of the VPC, do not overlap, fit their size, and have one description."""
    existing, reserved = platform.network.existing, service_facts().vpc.reserved_addresses_per_subnet
    if existing is None:
        return
    for name, subnet in existing.subnets.items():
        key: KeyPath = (*KEY, "subnets", name)
        if not any(subnet.cidr.subnet_of(block) for block in existing.cidrs):
            yield (*key, "cidr"), f"it is outside of the blocks of {existing.vpc_id}", AGAIN
        elif subnet.free > (most := subnet.cidr.num_addresses - reserved):
            yield (*key, "free"), f"a subnet of {subnet.cidr} has {most} addresses at most", AGAIN
    for (name, one), (other, two) in combinations(existing.subnets.items(), 2):
        # Several parts of a platform may share a subnet.
        if one.id == two.id and one != two:
            yield (*KEY, "subnets", other, "id"), f"{name} has this ID, too, and another range, zone, or space", AGAIN
        elif one.id != two.id and one.cidr.overlaps(two.cidr):
            yield (*KEY, "subnets", other, "cidr"), f"it overlaps that of {name}, and subnets do not", AGAIN


@rule
def an_existing_vpc_takes_the_new_blocks(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """EC2 adds no block of another private range to a VPC, and none of 10.0.0.0/16 beside one of 10.0.0.0/15."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    try:
        added = plan_addresses(platform, catalogue).added_cidrs
    except AddressesDoNotFit:
        return  # reported by its own rule
    primary = existing.cidrs[0]
    home = next((each for each in PRIVATE_RANGES if primary.subnet_of(each)), None)
    for block in added:
        others = [each for each in (*PRIVATE_RANGES, _NEVER_BESIDE) if home and each != home and block.overlaps(each)]
        reason = f"{existing.vpc_id} has {primary}, and EC2 adds no block of {others[0]} to it" if others else ""
        near = next((each for each in existing.cidrs if each.overlaps(_BESIDE_FIRST)), None)
        if near and block.overlaps(_FIRST):
            reason = (
                f"{existing.vpc_id} has {near}, and EC2 adds no block of {_FIRST} to a VPC with one of {_BESIDE_FIRST}"
            )
        if reason:
            yield ("network", "cidr"), reason, f"choose a free range inside {home or primary}, or inside the VPC"


@rule
def endpoints_of_an_existing_vpc_are_services(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A service that is spelt almost as one that the platform needs would get a second endpoint, which EC2 refuses."""
    existing = platform.network.existing
    if existing is None or any(name not in catalogue for _, name in instance_types(platform)):
        return
    # Those that the platform would create in a closed VPC of its own.
    closed = platform.network.model_copy(update={"existing": None, "access": "closed"})
    needed = {"s3", *interface_endpoints(platform.model_copy(update={"network": closed}), catalogue)}
    for index, service in enumerate(existing.endpoints):
        if service.endswith("-fips"):
            continue  # a service of its own, such as kms-fips
        near = difflib.get_close_matches(service, needed - {*existing.endpoints}, n=1, cutoff=0.8)
        if service not in needed and near:
            yield (*KEY, "endpoints", index), "no AWS service has an endpoint of this name", f"did you mean {near[0]}?"


@rule
def services_and_nodes_have_other_addresses(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The addresses of an existing cluster's services are no addresses of the VPC: kube-proxy catches their traffic."""
    adopted, existing = platform.adopted_cluster, platform.network.existing
    if adopted is None or existing is None:
        return
    if other := next((each for each in existing.cidrs if each.overlaps(adopted.service_cidr)), None):
        reason = f"EKS refuses a cluster whose services are in {other}, a block of its VPC"
        yield ("kubernetes", "existing", "service_cidr"), reason, AGAIN
    elif platform.network.cidr.overlaps(adopted.service_cidr):
        reason = f"the services of {adopted.name} have {adopted.service_cidr}, and kube-proxy catches their traffic"
        yield ("network", "cidr"), reason, "choose another range for the new subnets"
