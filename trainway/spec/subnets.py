"""Which subnets a platform needs, and how many addresses each must hold.

Every subnet is sized from what will take addresses in it; none is ever a guess.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network

from trainway.spec.catalogue import Catalogue, Instance, InterfaceKind
from trainway.spec.platform import NodeGroup, Platform
from trainway.spec.services import service_facts


class SubnetRole(StrEnum):
    """What lives in a subnet."""

    PUBLIC = "public"
    CLUSTER = "cluster"
    STORAGE = "storage"
    NODES = "nodes"


@dataclass(frozen=True)
class Need:
    """One thing that takes addresses, and how many."""

    what: str
    addresses: int


@dataclass(frozen=True)
class SubnetNeed:
    """A subnet before it has a range: what lives in it, in which zone, and what it must hold.

    `saved_by_efa_only` is how many addresses more it would take were the EFA interfaces not efa-only.
    """

    name: str
    role: SubnetRole
    zone: str
    needs: tuple[Need, ...]
    saved_by_efa_only: int = 0

    @property
    def addresses(self) -> int:
        """Addresses that the needs add up to."""
        return sum(need.addresses for need in self.needs)

    @property
    def prefix_length(self) -> int:
        """The prefix length of the smallest range whose usable addresses cover the needs.

        It may be shorter than any that a subnet can have; the longest is the one that a subnet must at least have.
        """
        vpc = service_facts().vpc
        return min(vpc.prefix_lengths[1], 32 - (self.addresses + vpc.reserved_addresses_per_subnet - 1).bit_length())

    def fits(self, cidr: IPv4Network) -> bool:
        """Whether the range holds the needs."""
        return self.prefix_length >= cidr.prefixlen

    def __str__(self) -> str:
        sums = " + ".join(f"{need.addresses} ({need.what})" for need in self.needs)
        return f"{self.name}: {sums} → /{self.prefix_length}"


def node_subnet_name(group: NodeGroup) -> str:
    """The name of a node group's subnet, which no other subnet can have."""
    return f"{SubnetRole.NODES}-{group.name}"


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


def shared_subnets(platform: Platform, catalogue: Catalogue) -> tuple[SubnetNeed, ...]:
    """The subnets that are there whatever the node groups are: per zone a public and a cluster one, and storage's."""
    zones = tuple(enumerate(platform.zones))
    public = (Need("NAT gateway and load balancers", 16),)
    storage = (Need("FSx for Lustre file servers", _lustre_addresses(platform)),)
    return (
        *(SubnetNeed(f"{SubnetRole.PUBLIC}-{n}", SubnetRole.PUBLIC, zone, public) for n, zone in zones),
        *(
            SubnetNeed(
                f"{SubnetRole.CLUSTER}-{n}", SubnetRole.CLUSTER, zone, (*_cluster_needs(platform, catalogue, n),)
            )
            for n, zone in zones
        ),
        # Beside the first group's nodes: a file system in another zone is slower, and bills by the byte.
        SubnetNeed(SubnetRole.STORAGE, SubnetRole.STORAGE, platform.zone_of(platform.node_groups[0]), storage),
    )


def node_subnets(platform: Platform, catalogue: Catalogue) -> tuple[SubnetNeed, ...]:
    """One subnet a node group, in the order of the file."""
    return tuple(_node_subnet(platform, catalogue, group) for group in platform.node_groups)


def _node_subnet(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> SubnetNeed:
    instance, kubernetes = catalogue[group.instance_type], platform.orchestrator.is_kubernetes
    each = addresses_per_node(instance, kubernetes=kubernetes, efa_only=True)
    saved = addresses_per_node(instance, kubernetes=kubernetes, efa_only=False) - each
    needs = (
        Need(f"{group.largest} × {group.instance_type} at {each}", each * group.largest),
        Need("replacement of one node", each),
    )
    zone = platform.zone_of(group)
    return SubnetNeed(node_subnet_name(group), SubnetRole.NODES, zone, needs, saved * (group.largest + 1))


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
