"""Assign the CIDR blocks of a platform's subnets in the VPC.

A subnet cannot be enlarged or moved while it is in use, so the layout never needs to: a deployed subnet keeps the CIDR
block in the lock, and a new one takes a block that was not in use until the last deploy. The VPC's CIDR block is
divided into sixteen equal shares. The first is divided among the public subnets. Each of the others is one subnet, far
larger than it needs to be today, because private addresses cost nothing: the cluster subnets of the zones, the storage
subnet, and the node groups' subnets. A new node group takes the lowest free slot, in the order of the file. A slot is a
share, and a CIDR block of its own for a group that is too large for a share. Slots beyond the VPC's shares are shares
of further CIDR blocks, divided in the same way. All of these are in RFC 6598's shared address space, which any VPC can
add. A layout that does not fit is refused, with the calculation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Network

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.network.subnets import Need, SubnetNeed, SubnetRole, node_subnets, shared_subnets
from trainway.spec.platform import MOST_ZONES, Platform
from trainway.spec.problems import KeyPath
from trainway.spec.sections.existing import AdoptedSubnet, ExistingNetwork

# Sixteen shares of the VPC's CIDR block, and an eighth of a share for the public subnet of each zone.
SHARE_BITS = 4
PUBLIC_BITS = 3
# CIDR blocks at the end of the shared address space that are divided into shares: as many as a VPC can add.
SHARED_RANGES = 3
LARGER_RANGE = "use a larger range such as 10.0.0.0/16"
FREE_RANGE = "choose a range for `cidr` that is free"


@dataclass(frozen=True)
class Subnet:
    """A planned subnet: its CIDR block, and its needs for addresses. `adopted` is set if the subnet exists already."""

    cidr: IPv4Network
    need: SubnetNeed
    adopted: AdoptedSubnet | None = None

    @property
    def name(self) -> str:
        """Return the subnet's name, which is unique in the platform."""
        return self.need.name

    @property
    def role(self) -> SubnetRole:
        """Return the role of the subnet."""
        return self.need.role

    @property
    def zone(self) -> str:
        """Return the Availability Zone ID of the subnet."""
        return self.need.zone

    @property
    def needs(self) -> tuple[Need, ...]:
        """Return the needs for addresses in the subnet."""
        return self.need.needs

    @property
    def needed(self) -> int:
        """Return the sum of the needed addresses."""
        return self.need.addresses

    @property
    def usable(self) -> int:
        """Return the number of available addresses, without those that AWS reserves or that others use already."""
        if self.adopted:
            return self.adopted.free
        return self.cidr.num_addresses - service_facts().vpc.reserved_addresses_per_subnet


@dataclass(frozen=True)
class AddressPlan:
    """The VPC's CIDR blocks, primary first, and its subnets.

    `added_for_all` are the blocks that are added to an existing VPC for subnets of every role. `added_for_nodes` are
    those that only node groups need.
    """

    vpc_cidrs: tuple[IPv4Network, ...]
    added_for_all: tuple[IPv4Network, ...]
    added_for_nodes: tuple[IPv4Network, ...]
    subnets: tuple[Subnet, ...]

    @property
    def added_cidrs(self) -> tuple[IPv4Network, ...]:
        """Return the CIDR blocks that are added to the VPC."""
        return (*self.added_for_all, *self.added_for_nodes)

    def of_role(self, role: SubnetRole) -> tuple[Subnet, ...]:
        """Return the subnets of one role, in the order of the platform's zones or node groups."""
        return tuple(subnet for subnet in self.subnets if subnet.role is role)


def service_cidr(platform: Platform, plan: AddressPlan) -> IPv4Network:
    """Return the CIDR block of the cluster's services: one of EKS's two candidates that the VPC does not use.

    A cluster keeps the block with which it was deployed, and an adopted one its own.
    """
    if platform.adopted_cluster:
        return platform.adopted_cluster.service_cidr
    candidates = service_facts().eks.service_cidrs
    return platform.lock.service_cidr or next(
        cidr for cidr in candidates if not any(cidr.overlaps(range_) for range_ in plan.vpc_cidrs)
    )


class AddressesDoNotFit(Exception):
    """The subnets need more than a VPC, or this VPC's CIDR block, can provide. `remedy` is the change at `key`."""

    def __init__(
        self, reason: str, needs: Iterable[SubnetNeed], remedy: str, key: KeyPath = ("network", "cidr")
    ) -> None:
        super().__init__(f"{reason}: {'; '.join(map(str, needs))}")
        self.remedy, self.key = remedy, key


def plan_addresses(platform: Platform, catalogue: Catalogue) -> AddressPlan:
    """Return the platform's subnets, each with its CIDR block.

    No change of the file moves a subnet that is in the lock. Without a lock, growing one node group never moves
    another's subnet, and neither does adding a zone or a group at the end of its list.

    Raises AddressesDoNotFit.
    """
    primary, existing = platform.network.cidr, platform.network.existing
    shared, nodes = shared_subnets(platform, catalogue), node_subnets(platform, catalogue)
    shares = _shares(primary, (*shared, *nodes))
    adopted = _adopted(existing, (*shared, *nodes)) if existing else {}
    for number, need in enumerate(nodes):
        _check_deployed(platform, need, ("node_groups", number, "max_count"))
    candidates = [(need, _deployed(platform, need) or _shared_block(need, shares)) for need in shared]
    for need, share in candidates:
        if need.name not in adopted and not need.fits(share):
            largest = primary.prefixlen == service_facts().vpc.prefix_lengths[0]
            remedy = "use fewer system nodes" if largest or platform.lock.subnets else LARGER_RANGE
            raise AddressesDoNotFit(f"in {primary} this subnet would be {share}", [need], remedy)

    ranges = existing.cidrs if existing else (primary,)
    found = _node_blocks(platform, nodes, shares[1 + MOST_ZONES + 1 :])
    candidates += [(need, found[need.name]) for need in nodes]
    beyond = {need.name: own for need in nodes if (own := _added_for(found[need.name], primary))}
    # Each block once, in the order of the groups.
    added = tuple({own: None for name, own in beyond.items() if name not in adopted})
    if len(ranges) + len(added) > (limit := service_facts().vpc.cidr_blocks):
        has = " and ".join(map(str, ranges))
        reason = f"a VPC has at most {limit} ranges, and beside {has} each of these needs one that is not in it"
        remedy = f"lower their max_counts, or have fewer groups, or {LARGER_RANGE}"
        raise AddressesDoNotFit(reason, [n for n in nodes if n.name not in adopted and n.name in beyond], remedy)
    for need, block in candidates:
        if need.name not in adopted and not need.fits(block):
            reason = f"a subnet is at most a /{block.prefixlen}"
            raise AddressesDoNotFit(reason, [need], "divide it into several node groups, or lower its max_count")

    subnets = tuple(adopted.get(need.name) or Subnet(block, need) for need, block in candidates)
    if existing:
        added = _added_to(existing, primary, added, [subnet for subnet in subnets if not subnet.adopted])
    for_all = tuple(cidr for cidr in added if cidr == primary)
    return AddressPlan((*ranges, *added), for_all, tuple(cidr for cidr in added if cidr != primary), subnets)


def _deployed(platform: Platform, need: SubnetNeed) -> IPv4Network | None:
    """Return the CIDR block with which the subnet was deployed, or None."""
    deployed = platform.lock.subnets.get(need.name)
    return deployed.cidr if deployed else None


def _check_deployed(platform: Platform, need: SubnetNeed, key: KeyPath) -> None:
    """Raise AddressesDoNotFit if the need has outgrown the subnet that was deployed for it."""
    cidr = _deployed(platform, need)
    if cidr and not need.fits(cidr):
        reason = f"its subnet was deployed as {cidr}, and a subnet cannot grow"
        raise AddressesDoNotFit(reason, [need], "lower it, and add a second node group for the other nodes", key)


def _node_blocks(
    platform: Platform, nodes: tuple[SubnetNeed, ...], shares: list[IPv4Network]
) -> dict[str, IPv4Network]:
    """Return the CIDR block of each node group's subnet by name: the deployed one, or that of the lowest free slot."""
    deployed = [subnet.cidr for subnet in platform.lock.subnets.values()]
    # A slot is free if no subnet uses its share or its own CIDR block, whichever of the two a group takes.
    free = (
        slot
        for slot in zip((*shares, *_shares_beyond()), _own_ranges(), strict=False)
        if not any(block.overlaps(cidr) for block in slot for cidr in deployed)
    )
    found: dict[str, IPv4Network] = {}
    for need in nodes:
        if cidr := _deployed(platform, need):
            found[need.name] = cidr
        elif slot := next(free, None):
            share, own = slot
            found[need.name] = share if need.fits(share) else own
        else:
            remedy = "deploy the removals first, and then this group"
            raise AddressesDoNotFit("the groups that leave still have their subnets", [need], remedy)
    return found


def _added_for(block: IPv4Network, primary: IPv4Network) -> IPv4Network | None:
    """Return the CIDR block to add to the VPC for a subnet, or None if it is in the VPC's own block."""
    return None if block.subnet_of(primary) else block.supernet(new_prefix=service_facts().vpc.prefix_lengths[0])


def _adopted(existing: ExistingNetwork, needs: Iterable[SubnetNeed]) -> dict[str, Subnet]:
    """Return the existing subnets by name. Raise AddressesDoNotFit if one has too few free addresses."""
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
    """Return the CIDR blocks to add to the VPC, after checking that new subnets overlap nothing."""
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


def _shares(primary: IPv4Network, needs: tuple[SubnetNeed, ...]) -> list[IPv4Network]:
    """Return the sixteen shares of the VPC's CIDR block: for public subnets, clusters, storage, and node groups."""
    smallest = primary.prefixlen + SHARE_BITS + PUBLIC_BITS
    if smallest > (longest := service_facts().vpc.prefix_lengths[1]):
        reason = f"a subnet is at least a /{longest}, and the smallest of {primary} would be a /{smallest}"
        raise AddressesDoNotFit(reason, needs, LARGER_RANGE)
    return list(primary.subnets(SHARE_BITS))


def _shared_block(need: SubnetNeed, shares: list[IPv4Network]) -> IPv4Network:
    """Return the CIDR block of a subnet that does not depend on the node groups, by the number in its name."""
    number = 0 if need.role is SubnetRole.STORAGE else int(need.name.rpartition("-")[2])
    match need.role:
        case SubnetRole.PUBLIC if number < 2**PUBLIC_BITS:
            return list(shares[0].subnets(PUBLIC_BITS))[number]
        case SubnetRole.CLUSTER if number < MOST_ZONES:
            return shares[1 + number]
        case SubnetRole.STORAGE:
            return shares[1 + MOST_ZONES]
    remedy = "deploy the removal first, and then the new zone"
    raise AddressesDoNotFit("the zone that leaves still has its subnet", [need], remedy, ("zones",))


@cache
def _own_ranges() -> list[IPv4Network]:
    """Return the CIDR block that each slot has to itself, from the beginning of the shared address space."""
    return _shared_address_space()[:-SHARED_RANGES]


@cache
def _shares_beyond() -> list[IPv4Network]:
    """Return the shares of the slots beyond the VPC's own, from the end of the shared address space."""
    ranges = reversed(_shared_address_space()[-SHARED_RANGES:])
    return [share for range_ in ranges for share in range_.subnets(SHARE_BITS)]


def _shared_address_space() -> list[IPv4Network]:
    vpc = service_facts().vpc
    return list(vpc.shared_address_space.subnets(new_prefix=vpc.prefix_lengths[0]))
