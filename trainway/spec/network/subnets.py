"""The subnets that a platform needs, and the number of addresses in each.

The size of every subnet is the sum of its needs. No size is a guess.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv4Network

from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.node_updates import UpdateStrategy, update_strategy
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.services import service_facts
from trainway.spec.kubernetes.pod_network import SYSTEM_PODS, addresses_for_pods, pods_of_group
from trainway.spec.network.endpoints import interface_endpoints
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

# The image's build, and the widest step of the cluster's pipeline. In a closed network, each has a network interface.
BUILDS_AT_ONCE = 3


class SubnetRole(StrEnum):
    """The role of a subnet."""

    PUBLIC = "public"
    CLUSTER = "cluster"
    STORAGE = "storage"
    NODES = "nodes"


@dataclass(frozen=True)
class Need:
    """One need for addresses: what takes them, and how many."""

    what: str
    addresses: int


@dataclass(frozen=True)
class SubnetNeed:
    """A subnet before it has a CIDR block: its role, its zone, and its needs.

    `saved_by_efa_only` is the number of further addresses that it would need if the EFA interfaces were not efa-only.
    """

    name: str
    role: SubnetRole
    zone: str
    needs: tuple[Need, ...]
    saved_by_efa_only: int = 0

    @property
    def addresses(self) -> int:
        """Return the sum of the needed addresses."""
        return sum(need.addresses for need in self.needs)

    @property
    def prefix_length(self) -> int:
        """Return the prefix length of the smallest CIDR block whose usable addresses cover the needs.

        It may be shorter than a subnet allows, but is never longer.
        """
        vpc = service_facts().vpc
        return min(vpc.prefix_lengths[1], 32 - (self.addresses + vpc.reserved_addresses_per_subnet - 1).bit_length())

    def fits(self, cidr: IPv4Network) -> bool:
        """Return whether the CIDR block holds the needs."""
        return self.prefix_length >= cidr.prefixlen

    def __str__(self) -> str:
        sums = " + ".join(f"{need.addresses} ({need.what})" for need in self.needs)
        return f"{self.name}: {sums} → /{self.prefix_length}"


def node_subnet_name(group: NodeGroup) -> str:
    """Return the name of a node group's subnet, which no other subnet can have."""
    return f"{SubnetRole.NODES}-{group.name}"


def addresses_per_node(instance: Instance, orchestrator: Orchestrator, *, pods: int, efa_only: bool) -> int:
    """Return the IPv4 addresses that one node of this type takes from its subnet with this number of pods.

    Every network interface except an efa-only one takes an address. Under Kubernetes, those of network card 0 also hold
    the pods' addresses. HyperPod's documentation gives 32 for a P5 node under Slurm and 81 under EKS, which equal this
    sum: https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (read 2026-11-21).
    `efa_only` means that the EFA interfaces of the other cards have no address.
    """
    others = [interface for interface in instance.interfaces if interface.network_card_index > 0]
    with_address = sum(not (efa_only and interface.kind.carries_efa) for interface in others)
    if not orchestrator.is_kubernetes:
        return with_address + 1
    return with_address + addresses_for_pods(instance, pods, orchestrator)


def zone_numbers(platform: Platform) -> dict[str, int]:
    """Return the number of each zone in the names of its subnets, in ascending order.

    A zone keeps the number that it was deployed with. A zone that is added takes the lowest one that no zone has.
    """
    prefix = f"{SubnetRole.CLUSTER}-"
    deployed = {
        subnet.zone: int(name.removeprefix(prefix))
        for name, subnet in platform.lock.subnets.items()
        if name.startswith(prefix)
    }
    free = (number for number in itertools.count() if number not in deployed.values())
    found = {zone: deployed[zone] if zone in deployed else next(free) for zone in platform.region_zones}
    return dict(sorted(found.items(), key=lambda item: item[1]))


def shared_subnets(platform: Platform, catalogue: Catalogue) -> tuple[SubnetNeed, ...]:
    """Return the subnets that do not depend on the node groups: one for the cluster per zone, and one for storage.

    If the platform creates the NAT gateways, each zone also has a public subnet.
    """
    zones = [(number, zone) for zone, number in zone_numbers(platform).items()]
    first = min(number for number, _ in zones)
    public = (Need("NAT gateway and load balancers", 16),)
    storage = tuple(_storage_needs(platform))
    public_zones = () if platform.network.is_closed or platform.network.existing else zones
    return (
        *(SubnetNeed(f"{SubnetRole.PUBLIC}-{n}", SubnetRole.PUBLIC, zone, public) for n, zone in public_zones),
        *(
            SubnetNeed(
                f"{SubnetRole.CLUSTER}-{n}",
                SubnetRole.CLUSTER,
                zone,
                (*_cluster_needs(platform, catalogue, is_first=n == first),),
            )
            for n, zone in zones
        ),
        # The zone of the first group's nodes: a file system in another zone is slower, and traffic to it is billed.
        SubnetNeed(SubnetRole.STORAGE.value, SubnetRole.STORAGE, platform.storage_zone, storage),
    )


def node_subnets(platform: Platform, catalogue: Catalogue) -> tuple[SubnetNeed, ...]:
    """Return one subnet per node group, in the order of the file."""
    return tuple(_node_subnet(platform, catalogue, group) for group in platform.node_groups)


def _node_subnet(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> SubnetNeed:
    orchestrator = platform.orchestrator

    def takes(instance: Instance, *, efa_only: bool) -> int:
        pods = pods_of_group(group, instance, orchestrator)
        return addresses_per_node(instance, orchestrator, pods=pods, efa_only=efa_only)

    # All nodes may be of the type that takes the most addresses.
    instance = max(types_of(group, catalogue), key=lambda each: takes(each, efa_only=True))
    each = takes(instance, efa_only=True)
    saved = takes(instance, efa_only=False) - each
    with_pods = f" ({pods_of_group(group, instance, orchestrator)} pods)" if orchestrator.is_kubernetes else ""
    new = _new_nodes(group, orchestrator)
    needs = (
        Need(f"{group.largest} × {instance.name} at {each}{with_pods}", each * group.largest),
        *([Need(f"replacement of {new}", each * new)] if new else []),
    )
    zone = platform.zone_of(group)
    return SubnetNeed(node_subnet_name(group), SubnetRole.NODES, zone, needs, saved * (group.largest + new))


def _new_nodes(group: NodeGroup, orchestrator: Orchestrator) -> int:
    """Return how many new nodes EKS's updates or HyperPod's repairs add before the old nodes are gone.

    EKS's strategy MINIMAL terminates a node before it launches the next one.
    """
    if orchestrator.is_hyperpod:
        return 1
    return 0 if update_strategy(group) is UpdateStrategy.MINIMAL else service_facts().eks.new_nodes_per_zone


def _cluster_needs(platform: Platform, catalogue: Catalogue, *, is_first: bool) -> Iterable[Need]:
    if endpoints := len(interface_endpoints(platform, catalogue)):
        yield Need("VPC endpoints", endpoints)
    orchestrator, eks = platform.orchestrator, service_facts().eks
    # Builds that call the cluster's API run inside every network, and the others inside a closed one.
    if orchestrator.is_kubernetes or platform.network.is_closed:
        yield Need("delivery's builds", BUILDS_AT_ONCE)
    if orchestrator.is_kubernetes and not platform.adopted_cluster:
        yield Need("EKS control plane", eks.control_plane_addresses_per_subnet)
    if orchestrator.is_kubernetes:
        system = platform.kubernetes_or_default.system_nodes
        instance = catalogue[system.instance_type]
        each = addresses_per_node(instance, orchestrator, pods=SYSTEM_PODS, efa_only=True)
        # Every zone has room for all of them. Auto Scaling moves them here if another zone fails, with more during
        # updates.
        count = system.count + eks.new_nodes_per_zone
        yield Need(f"{count} × {system.instance_type} at {each} ({SYSTEM_PODS} pods)", each * count)
    elif is_first:
        heads = 2 if platform.slurm_or_default.login else 1
        yield Need("Slurm controller and login nodes, and their replacements", 2 * heads)


def _storage_needs(platform: Platform) -> Iterable[Need]:
    """Yield the addresses to reserve for the file systems, for which AWS publishes no count.

    These are allowances. Lustre: one for each smallest unit of capacity, or step of throughput, and two for metadata.
    OpenZFS: one for each file server, and one for the address that moves between them.
    """
    storage, facts = platform.storage, service_facts().lustre
    for lustre in storage.lustre_by_key.values():
        if lustre.existing:
            continue
        elastic = lustre.throughput_mbps // facts.intelligent_tiering.throughput_step_mbps
        servers = elastic if lustre.is_elastic else lustre.capacity_gib // facts.capacity_gib[0]
        yield Need("FSx for Lustre file servers", servers + 2)
    if storage.home:
        yield Need("FSx for OpenZFS file servers", 3 if storage.home.highly_available else 2)
