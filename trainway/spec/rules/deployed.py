"""What a deploy created, and no later one can change: the lock beside the platform file has it."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.subnets import SubnetRole, node_subnet_name
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules.rule import Breach, rule


@rule
def the_vpc_keeps_its_range(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The range of a deployed VPC stays as it is."""
    deployed = platform.lock.vpc_cidr
    if deployed and platform.network.cidr != deployed:
        reason = f"the platform was deployed with {deployed}, and the range of a VPC cannot change"
        yield ("network", "cidr"), reason, f"write {deployed}, or deploy a platform with another `name` beside this one"


@rule
def node_groups_stay_in_their_zones(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The nodes of a deployed group stay in the zone of their subnet."""
    adopted = platform.network.existing.subnets if platform.network.existing else {}
    for index, group in enumerate(platform.node_groups):
        name = node_subnet_name(group)
        deployed = platform.lock.subnets.get(name)
        if deployed and name not in adopted and platform.zone_of(group) != deployed.zone:
            reason = f"the subnet of {group.name} was deployed in {deployed.zone}, and a subnet cannot change its zone"
            remedy = f"write `zone: {deployed.zone}`, or give the group in the other zone another name"
            yield ("node_groups", index, "zone"), reason, remedy


@rule
def the_first_zone_stays(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """The zone of the NAT gateway, of the Slurm controller, and of HyperPod's own interfaces stays."""
    deployed = platform.lock.subnets.get(f"{SubnetRole.CLUSTER}-0")
    if deployed and deployed.zone not in platform.zones:
        reason = f"the platform was deployed with {deployed.zone} as its first zone, where the cluster's own network is"
        yield ("zones",), reason, f"keep {deployed.zone} in the list; groups can have another `zone`"
