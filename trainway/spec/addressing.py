"""Which subnets a platform needs, how large each must be, and where in the VPC they lie.

Every subnet is sized from what will take addresses in it; none is ever a guess, and a plan that does not fit is
refused with the sum written out. A subnet cannot grow once it exists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network

from trainway.spec.catalogue import Catalogue, Instance, InterfaceKind
from trainway.spec.platform import Platform
from trainway.spec.services import service_facts


class SubnetRole(StrEnum):
    """What lives in a subnet."""

    PUBLIC = "public"
    CLUSTER = "cluster"
    NODES = "nodes"


@dataclass(frozen=True)
class Need:
    """One thing that takes addresses, and how many."""

    what: str
    addresses: int


@dataclass(frozen=True)
class Subnet:
    """A planned subnet: `cidr` is the smallest range whose usable addresses cover the needs."""

    name: str
    role: SubnetRole
    zone: str
    cidr: IPv4Network
    needs: tuple[Need, ...]

    @property
    def needed(self) -> int:
        """Addresses that the needs add up to."""
        return sum(need.addresses for need in self.needs)

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
        """The subnets of one role, in the order of the platform's zones."""
        return tuple(subnet for subnet in self.subnets if subnet.role is role)


class AddressesDoNotFit(Exception):
    """The subnets need more than the VPC's range has."""

    remedy = "use a larger range such as 10.0.0.0/16, or a smaller max_count"


def addresses_per_node(instance: Instance, *, kubernetes: bool, efa_only: bool) -> int:
    """IPv4 addresses that one node of this type takes from its subnet.

    Every network interface but an efa-only one takes an address; under Kubernetes the primary card's interface also
    holds the pods' addresses, as many as an interface can carry. HyperPod's documentation gives 32 for a P5 node under
    Slurm and 81 under EKS, which are this sum: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html
    (read 2026-11-21). `efa_only` says that the secondary cards' interfaces carry no address.
    """
    secondary = [interface for interface in instance.interfaces if interface.network_card_index > 0]
    with_address = 0 if efa_only else len([i for i in secondary if i.kind is not InterfaceKind.INTERFACE])
    with_address += len([i for i in secondary if i.kind is InterfaceKind.INTERFACE])
    return with_address + (instance.ipv4_addresses_per_interface if kubernetes else 1)


def plan_addresses(platform: Platform, catalogue: Catalogue) -> AddressPlan:
    """The platform's subnets, laid into its VPC range largest first.

    Raises AddressesDoNotFit when the range is too small.
    """
    wanted = list(_wanted(platform, catalogue))
    low, high = service_facts().vpc.prefix_lengths
    reserved = service_facts().vpc.reserved_addresses_per_subnet
    prefixes = {
        want.name: min(high, 32 - (sum(n.addresses for n in want.needs) + reserved - 1).bit_length()) for want in wanted
    }
    placed: dict[str, IPv4Network] = {}
    start, end = int(platform.network.cidr.network_address), int(platform.network.cidr.broadcast_address) + 1
    # Largest first keeps every start a multiple of its own length, so no address between two subnets is lost.
    for want in sorted(wanted, key=lambda want: prefixes[want.name]):
        length = 2 ** (32 - prefixes[want.name])
        if prefixes[want.name] < low or start + length > end:
            raise AddressesDoNotFit(_shortage(platform.network.cidr, wanted, prefixes))
        placed[want.name] = IPv4Network((start, prefixes[want.name]))
        start += length
    subnets = tuple(Subnet(w.name, w.role, w.zone, placed[w.name], w.needs) for w in wanted)
    return AddressPlan((platform.network.cidr,), subnets)


@dataclass(frozen=True)
class _Wanted:
    name: str
    role: SubnetRole
    zone: str
    needs: tuple[Need, ...]


def _wanted(platform: Platform, catalogue: Catalogue) -> Iterable[_Wanted]:
    kubernetes = platform.orchestrator.is_kubernetes
    for number, zone in enumerate(platform.zones):
        yield _Wanted(f"public-{number}", SubnetRole.PUBLIC, zone, (Need("NAT gateway and load balancers", 16),))
    for number, zone in enumerate(platform.zones):
        yield _Wanted(f"cluster-{number}", SubnetRole.CLUSTER, zone, tuple(_cluster_needs(platform, catalogue, number)))
    for group in platform.node_groups:
        instance = catalogue[group.instance_type]
        # HyperPod attaches an address to every EFA interface; our own launch template does not.
        each = addresses_per_node(instance, kubernetes=kubernetes, efa_only=not platform.orchestrator.is_hyperpod)
        needs = [
            Need(f"{group.largest} × {group.instance_type} at {each}", each * group.largest),
            Need("replacement of one node", each),
        ]
        if group is platform.node_groups[0]:
            needs.append(Need("FSx for Lustre file servers", _lustre_addresses(platform)))
        yield _Wanted(group.name, SubnetRole.NODES, platform.zone_of(group), tuple(needs))


def _cluster_needs(platform: Platform, catalogue: Catalogue, zone_number: int) -> Iterable[Need]:
    yield Need("VPC endpoints", 16)
    if platform.orchestrator.is_kubernetes:
        yield Need("EKS control plane", service_facts().eks.control_plane_addresses_per_subnet)
        system = platform.kubernetes_or_default.system_nodes
        each = addresses_per_node(catalogue[system.instance_type], kubernetes=True, efa_only=True)
        # All of them, in every zone: Auto Scaling moves them here when another zone fails, one more while it replaces.
        yield Need(f"{system.count + 1} × {system.instance_type} at {each}", each * (system.count + 1))
    elif zone_number == 0:
        heads = 2 if platform.slurm_or_default.login else 1
        yield Need("Slurm controller and login nodes, and their replacements", 2 * heads)


def _lustre_addresses(platform: Platform) -> int:
    """Addresses to leave for the file system, for which AWS publishes no count.

    An allowance: one for each of the smallest capacity that is sold, and two for metadata.
    """
    return platform.storage.lustre.capacity_gib // service_facts().lustre.capacity_gib[0] + 2


def _shortage(cidr: IPv4Network, wanted: Iterable[_Wanted], prefixes: dict[str, int]) -> str:
    lines = [
        f"{want.name}: {' + '.join(f'{need.addresses} ({need.what})' for need in want.needs)} → /{prefixes[want.name]}"
        for want in wanted
    ]
    total = sum(2 ** (32 - prefix) for prefix in prefixes.values())
    return f"the subnets take {total} addresses and {cidr} has {cidr.num_addresses}: {'; '.join(lines)}"
