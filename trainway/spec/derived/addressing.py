"""Where in the VPC a platform's subnets lie.

A subnet cannot be enlarged or moved while anything lives in it, so the layout is made never to want that: a subnet's
place depends on nothing but what it is for. The VPC's range is cut into sixteen equal shares. The first is divided
among the public subnets; each of the others is one subnet, far larger than it need be today, for addresses of a
private range cost nothing: the cluster subnets of the zones, storage's, and the node groups' in the order of the file.
Node groups beyond those share further ranges, cut in the same way, and one that is too large for a share gets a range
of its own; both are of RFC 6598's shared address space, which any VPC can add. What cannot fit is refused with the sum
written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network

from trainway.spec.derived.subnets import Need, SubnetNeed, SubnetRole, node_subnets, shared_subnets
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.platform import MOST_ZONES, Platform
from trainway.spec.sections.existing import AdoptedSubnet, ExistingNetwork

# Sixteen shares of the VPC's range, and an eighth of a share for the public subnet of each zone.
SHARE_BITS = 4
PUBLIC_BITS = 3
LARGER_RANGE = "use a larger range such as 10.0.0.0/16"
FREE_RANGE = "choose a range for `cidr` that is free"


@dataclass(frozen=True)
class Subnet:
    """A planned subnet: a range, and what will take addresses in it; `adopted` where it exists already."""

    cidr: IPv4Network
    need: SubnetNeed
    adopted: AdoptedSubnet | None = None

    @property
    def name(self) -> str:
        """Unique in the platform."""
        return self.need.name

    @property
    def role(self) -> SubnetRole:
        """What lives in it."""
        return self.need.role

    @property
    def zone(self) -> str:
        """The zone id it is in."""
        return self.need.zone

    @property
    def needs(self) -> tuple[Need, ...]:
        """What takes addresses in it."""
        return self.need.needs

    @property
    def needed(self) -> int:
        """Addresses that its needs add up to."""
        return self.need.addresses

    @property
    def usable(self) -> int:
        """Addresses that are left of the range without the ones AWS keeps, and without those that others took first."""
        if self.adopted:
            return self.adopted.free
        return self.cidr.num_addresses - service_facts().vpc.reserved_addresses_per_subnet


@dataclass(frozen=True)
class AddressPlan:
    """The VPC's ranges, the first being its primary one; those of them that are added to it; and its subnets."""

    vpc_cidrs: tuple[IPv4Network, ...]
    added_cidrs: tuple[IPv4Network, ...]
    subnets: tuple[Subnet, ...]

    def of_role(self, role: SubnetRole) -> tuple[Subnet, ...]:
        """The subnets of one role, in the order of the platform's zones or node groups."""
        return tuple(subnet for subnet in self.subnets if subnet.role is role)


def service_cidr(plan: AddressPlan) -> IPv4Network:
    """The range of the cluster's services: of the two that EKS itself chooses from, one that the VPC does not have."""
    candidates = service_facts().eks.service_cidrs
    return next(cidr for cidr in candidates if not any(cidr.overlaps(range_) for range_ in plan.vpc_cidrs))


class AddressesDoNotFit(Exception):
    """The subnets need more than a VPC, or this one's range, can have; `remedy` says what to change."""

    def __init__(self, reason: str, needs: Iterable[SubnetNeed], remedy: str) -> None:
        super().__init__(f"{reason}: {'; '.join(map(str, needs))}")
        self.remedy = remedy


def plan_addresses(platform: Platform, catalogue: Catalogue) -> AddressPlan:
    """The platform's subnets, each with its range.

    Growing one node group never moves another's subnet, and nor does adding a zone or a group at the end of its list.

    Raises AddressesDoNotFit.
    """
    primary, existing = platform.network.cidr, platform.network.existing
    shared, nodes = shared_subnets(platform, catalogue), node_subnets(platform, catalogue)
    blocks = _cidr_blocks(primary, (*shared, *nodes))
    candidates = [(need, next(blocks[need.role])) for need in shared]
    adopted = _adopted(existing, (*shared, *nodes)) if existing else {}
    for need, share in candidates:
        if need.name not in adopted and not need.fits(share):
            largest = primary.prefixlen == service_facts().vpc.prefix_lengths[0]
            remedy = "use fewer system nodes" if largest else LARGER_RANGE
            raise AddressesDoNotFit(f"in {primary} this subnet would be {share}", [need], remedy)

    ranges = existing.cidrs if existing else (primary,)
    shares = list(blocks[SubnetRole.NODES])
    found = {need.name: _node_block(need, number, shares) for number, need in enumerate(nodes)}
    candidates += [(need, found[need.name][0]) for need in nodes]
    # In the order of the groups, each once.
    added = tuple({own: None for name, (_, own) in found.items() if own and name not in adopted})
    if len(ranges) + len(added) > (limit := service_facts().vpc.cidr_blocks):
        has = " and ".join(map(str, ranges))
        reason = f"a VPC has at most {limit} ranges, and beside {has} each of these needs one that is not in it"
        remedy = f"lower their max_counts, or have fewer groups, or {LARGER_RANGE}"
        raise AddressesDoNotFit(reason, [n for n in nodes if n.name not in adopted and found[n.name][1]], remedy)
    for need, block in candidates:
        if need.name not in adopted and not need.fits(block):
            reason = f"a subnet is at most a /{block.prefixlen}"
            raise AddressesDoNotFit(reason, [need], "divide it into several node groups, or lower its max_count")

    subnets = tuple(adopted.get(need.name) or Subnet(block, need) for need, block in candidates)
    if existing:
        added = _added_to(existing, primary, added, [subnet for subnet in subnets if not subnet.adopted])
    return AddressPlan((*ranges, *added), added, subnets)


def _node_block(need: SubnetNeed, number: int, shares: list[IPv4Network]) -> tuple[IPv4Network, IPv4Network | None]:
    """Where the subnet of a group with that number lies, and the range that has to be added for it, if one has.

    A share of the VPC's range; beyond the last of those, one of a range that sixteen groups have together, counted from
    the end of the shared address space; and for what is too large for either, a range of its own, from the beginning.
    """
    own_ranges = _own_ranges()
    if number < len(shares):
        share, added = shares[number], None
    else:
        block, index = divmod(number - len(shares), 2**SHARE_BITS)
        added = own_ranges[-1 - block]
        share = list(added.subnets(SHARE_BITS))[index]
    return (share, added) if need.fits(share) else (own_ranges[number], own_ranges[number])


def _adopted(existing: ExistingNetwork, needs: Iterable[SubnetNeed]) -> dict[str, Subnet]:
    """The subnets that exist, by name, if they have as many free addresses as are needed."""
    subnets = {
        need.name: Subnet(existing.subnets[need.name].cidr, need, existing.subnets[need.name])
        for need in needs
        if need.name in existing.subnets
    }
    for subnet in subnets.values():
        if subnet.needed > subnet.usable:
            reason = f"{existing.subnets[subnet.name].id} has {subnet.usable} free addresses"
            raise AddressesDoNotFit(reason, [subnet.need], "adopt a larger one, or leave it out so that one is made")
    return subnets


def _added_to(
    existing: ExistingNetwork, primary: IPv4Network, own: tuple[IPv4Network, ...], made: list[Subnet]
) -> tuple[IPv4Network, ...]:
    """The ranges that the VPC lacks, once it is sure that what is made lies where nothing is."""
    inside = any(primary.subnet_of(cidr) for cidr in existing.cidrs)
    added = own if inside or not any(subnet.cidr.subnet_of(primary) for subnet in made) else (primary, *own)
    needs = [subnet.need for subnet in made]
    for cidr in added:
        if other := next((other for other in existing.cidrs if cidr.overlaps(other)), None):
            raise AddressesDoNotFit(f"{cidr} is not free: the VPC has {other}", needs, FREE_RANGE)
    if len(existing.cidrs) + len(added) > (limit := service_facts().vpc.cidr_blocks):
        raise AddressesDoNotFit(f"a VPC has at most {limit} ranges", needs, "choose a `cidr` inside one that it has")
    taken = (*existing.taken, *(subnet.cidr for subnet in existing.subnets.values()))
    for subnet in made:
        if other := next((other for other in taken if subnet.cidr.overlaps(other)), None):
            raise AddressesDoNotFit(f"{subnet.cidr} overlaps the VPC's subnet {other}", [subnet.need], FREE_RANGE)
    return added


def _cidr_blocks(primary: IPv4Network, needs: tuple[SubnetNeed, ...]) -> dict[SubnetRole, Iterator[IPv4Network]]:
    """The ranges that the subnets of each role take, in turn."""
    smallest = primary.prefixlen + SHARE_BITS + PUBLIC_BITS
    if smallest > (longest := service_facts().vpc.prefix_lengths[1]):
        reason = f"a subnet is at least a /{longest}, and the smallest of {primary} would be a /{smallest}"
        raise AddressesDoNotFit(reason, needs, LARGER_RANGE)
    shares = primary.subnets(SHARE_BITS)
    return {
        SubnetRole.PUBLIC: next(shares).subnets(PUBLIC_BITS),
        SubnetRole.CLUSTER: iter([next(shares) for _ in range(MOST_ZONES)]),
        SubnetRole.STORAGE: iter([next(shares)]),
        SubnetRole.NODES: shares,
    }


@cache
def _own_ranges() -> list[IPv4Network]:
    """Yield, for each node group in turn, the range that it would have to itself."""
    vpc = service_facts().vpc
    return list(vpc.shared_address_space.subnets(new_prefix=vpc.prefix_lengths[0]))
