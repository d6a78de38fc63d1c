"""Where in the VPC a platform's subnets lie.

A subnet cannot be enlarged or moved while anything lives in it, so the layout is made never to want that: a subnet's
place depends on nothing but what it is for. The VPC's range is cut into sixteen equal shares. The first is divided
among the public subnets; each of the others is one subnet, far larger than it need be today, for addresses of a
private range cost nothing: the cluster subnets of the zones, storage's, and the node groups' in the order of the file.
A node group that is too large for a share, or for which none is left, gets a range of its own from RFC 6598's shared
address space, which any VPC can add. What cannot fit is refused with the sum written out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import MOST_ZONES, Platform
from trainway.spec.services import service_facts
from trainway.spec.subnets import Need, SubnetNeed, SubnetRole, node_subnets, shared_subnets

# Sixteen shares of the VPC's range, and an eighth of a share for the public subnet of each zone.
SHARE_BITS = 4
PUBLIC_BITS = 3
LARGER_RANGE = "use a larger range such as 10.0.0.0/16"


@dataclass(frozen=True)
class Subnet:
    """A planned subnet: a range, and what will take addresses in it."""

    cidr: IPv4Network
    need: SubnetNeed

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
        """The id of its zone."""
        return self.need.zone

    @property
    def needs(self) -> tuple[Need, ...]:
        """What takes addresses in it."""
        return self.need.needs

    @property
    def needed(self) -> int:
        """Addresses that the needs add up to."""
        return self.need.addresses

    @property
    def usable(self) -> int:
        """Addresses of the range less the ones AWS keeps."""
        return self.cidr.num_addresses - service_facts().vpc.reserved_addresses_per_subnet


@dataclass(frozen=True)
class AddressPlan:
    """The VPC's ranges, the first being its primary one, and its subnets."""

    vpc_cidrs: tuple[IPv4Network, ...]
    subnets: tuple[Subnet, ...]

    def of_role(self, role: SubnetRole) -> tuple[Subnet, ...]:
        """The subnets of one role, in the order of the platform's zones or node groups."""
        return tuple(subnet for subnet in self.subnets if subnet.role is role)


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
    primary = platform.network.cidr
    shared, nodes = shared_subnets(platform, catalogue), node_subnets(platform, catalogue)
    places = _places(primary, shared)
    placed = []
    for need in shared:
        place = next(places[need.role])
        if not need.fits(place):
            largest = primary.prefixlen == service_facts().vpc.prefix_lengths[0]
            remedy = "use fewer system nodes" if largest else LARGER_RANGE
            raise AddressesDoNotFit(f"in {primary} this subnet would be {place}", [need], remedy)
        placed.append(Subnet(place, need))

    shares, own_ranges = list(places[SubnetRole.NODES]), _own_ranges()
    outgrown = [need for number, need in enumerate(nodes) if number >= len(shares) or not need.fits(shares[number])]
    if 1 + len(outgrown) > (limit := service_facts().vpc.cidr_blocks):
        reason = f"a VPC has at most {limit} ranges, and beside {primary} each of these needs its own"
        raise AddressesDoNotFit(reason, outgrown, f"lower their max_counts, or have fewer groups, or {LARGER_RANGE}")
    secondary = []
    for number, need in enumerate(nodes):
        place = own_ranges[number] if need in outgrown else shares[number]
        if not need.fits(place):
            reason = f"a subnet is at most a /{place.prefixlen}"
            raise AddressesDoNotFit(reason, [need], "divide it into several node groups, or lower its max_count")
        if need in outgrown:
            secondary.append(place)
        placed.append(Subnet(place, need))
    return AddressPlan((primary, *secondary), tuple(placed))


def _places(primary: IPv4Network, shared: tuple[SubnetNeed, ...]) -> dict[SubnetRole, Iterator[IPv4Network]]:
    """The ranges that the subnets of each role take, in turn."""
    smallest = primary.prefixlen + SHARE_BITS + PUBLIC_BITS
    if smallest > (longest := service_facts().vpc.prefix_lengths[1]):
        reason = f"a subnet is at least a /{longest}, and the smallest of {primary} would be a /{smallest}"
        raise AddressesDoNotFit(reason, shared, LARGER_RANGE)
    shares = primary.subnets(SHARE_BITS)
    return {
        SubnetRole.PUBLIC: next(shares).subnets(PUBLIC_BITS),
        SubnetRole.CLUSTER: iter([next(shares) for _ in range(MOST_ZONES)]),
        SubnetRole.STORAGE: iter([next(shares)]),
        SubnetRole.NODES: shares,
    }


def _own_ranges() -> list[IPv4Network]:
    """For each node group in turn, the range that it would have to itself."""
    vpc = service_facts().vpc
    return list(vpc.shared_address_space.subnets(new_prefix=vpc.prefix_lengths[0]))
