"""The transport between the nodes of a group and an EFA-enabled Lustre file system.

Every node can use TCP. Nodes of some types can use EFA, in the file system's zone and its part of the VPC.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/efa-file-systems.html, Prerequisites (read 2026-11-21)
"""

from __future__ import annotations

from ipaddress import IPv4Network

from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.services import service_facts
from trainway.spec.network.addressing import AddressPlan, plan_addresses
from trainway.spec.network.subnets import SubnetRole, node_subnet_name
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

# File system and clients must be in the same CIDR block of this length.
SHARED_PREFIX_LENGTH = 16


def speaks_efa(instance_type: str, catalogue: Catalogue) -> bool:
    """Return whether an instance type supports EFA as a client of Lustre."""
    no_clients = service_facts().lustre.not_efa_clients
    return bool(catalogue[instance_type].efa_interfaces) and instance_type.partition(".")[0] not in no_clients


def efa_interfaces(platform: Platform, catalogue: Catalogue) -> dict[str, int]:
    """Return the number of a node's EFA devices that reach the file system, by group that uses EFA.

    It is the number of AWS's own set-up, or fewer: all possible nodes share the file system's connections.
    """
    facts, plan = service_facts().lustre, plan_addresses(platform, catalogue)
    groups = [each for each in platform.node_groups if not transport(platform, each, catalogue, plan)[1]]
    share = facts.efa_connections // max(1, sum(group.largest for group in groups))
    found = {}
    for group in groups:
        instance = catalogue[group.instance_type]
        several = facts.efa_interfaces_of_several_cards if instance.network_cards > 1 else 1
        found[group.name] = max(1, min(facts.efa_interfaces.get(instance.name, several), share))
    return found


def transport(platform: Platform, group: NodeGroup, catalogue: Catalogue, plan: AddressPlan) -> tuple[str, str]:
    """Return the transport: TCP, EFA, or EFA on a type for GPUDirect Storage; and for TCP the reason."""
    lustre, facts = platform.storage.lustre, service_facts().lustre
    types = [each.name for each in types_of(group, catalogue)]
    if lustre is None:
        return "TCP", "the platform has no file system"
    if not lustre.efa:
        return "TCP", "the file system has no EFA"
    if no_client := next((name for name in types if not speaks_efa(name, catalogue)), None):
        return "TCP", f"{no_client} is no EFA client of FSx"
    if platform.zone_of(group) != platform.storage_zone:
        return "TCP", f"the file system is in {platform.storage_zone}"
    (storage,) = plan.of_role(SubnetRole.STORAGE)
    nodes = next(subnet for subnet in plan.subnets if subnet.name == node_subnet_name(group))
    if _surrounding(storage.cidr) != _surrounding(nodes.cidr):
        return "TCP", f"the file system is in {_surrounding(storage.cidr)}, the nodes in {nodes.cidr}"
    direct = all(name.partition(".")[0] in facts.gpudirect_clients for name in types)
    return ("EFA, fit for GPUDirect" if direct else "EFA"), ""


def _surrounding(cidr: IPv4Network) -> IPv4Network:
    return cidr.supernet(new_prefix=SHARED_PREFIX_LENGTH) if cidr.prefixlen > SHARED_PREFIX_LENGTH else cidr
