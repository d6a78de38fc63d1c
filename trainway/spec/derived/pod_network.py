"""How pods get addresses from a node's subnet: the settings of the VPC CNI, and what a node takes under them."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trainway.spec.facts.catalogue import Instance, InterfaceKind
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

# A prefix is a /28. https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html (read 2026-11-21)
ADDRESSES_PER_PREFIX = 16
# Kept free for the next pods, so that none waits for EC2.
WARM_PREFIXES = 1
WARM_ADDRESSES = 5
# Nodes that are paid for their accelerators run a job's pods and the daemons, and system nodes the add-ons; all others
# up to Kubernetes' own limit, https://kubernetes.io/docs/setup/best-practices/cluster-large/ (read 2026-11-21)
ACCELERATED_PODS = SYSTEM_PODS = 32
OTHER_PODS = 110


def cni_settings(orchestrator: Orchestrator) -> Mapping[str, str]:
    """The VPC CNI's environment.

    EKS nodes take whole prefixes and carry as many pods as they are told to. HyperPod counts single addresses when it
    says what a node takes; a warm target in addresses keeps nodes from taking a whole second interface's worth.
    https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/prefix-and-ip-target.md (read 2026-11-21)
    """
    if orchestrator.is_hyperpod:
        return {"WARM_IP_TARGET": str(WARM_ADDRESSES)}
    return {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": str(WARM_PREFIXES)}


def pods_of_group(group: NodeGroup, instance: Instance, orchestrator: Orchestrator) -> int:
    """The most pods that a node of the group runs: under EKS its kubelet is told so.

    HyperPod tells the kubelet itself. Its own sum for an accelerated node is the addresses of one interface.
    """
    if group.max_pods:
        return group.max_pods
    capacity = instance.pod_capacity(prefix_delegation=not orchestrator.is_hyperpod)
    if instance.accelerator is None:
        return min(OTHER_PODS, capacity)
    if orchestrator.is_hyperpod:
        return instance.ipv4_addresses_per_interface - 1 - WARM_ADDRESSES
    # Each fraction of a GPU is for a pod of its own.
    fractions = instance.accelerator.fractions(group.mig) if group.mig else 0
    return min(ACCELERATED_PODS + fractions, capacity)


def addresses_for_pods(instance: Instance, pods: int, orchestrator: Orchestrator) -> int:
    """Addresses that a node takes for that many pods: theirs, the warm ones, and one for each interface that has them.

    Never more than the interfaces of network card 0 can hold.
    """
    efa_only = sum(i.network_card_index == 0 and i.kind is InterfaceKind.EFA_ONLY for i in instance.interfaces)
    per_interface = instance.ipv4_addresses_per_interface - 1
    slots = per_interface * (instance.primary_card_interfaces - efa_only)
    if orchestrator.is_hyperpod:
        taken = min(pods + WARM_ADDRESSES, slots)
        return taken + _interfaces(taken, per_interface)
    prefixes = min(math.ceil(pods / ADDRESSES_PER_PREFIX) + WARM_PREFIXES, slots)
    return ADDRESSES_PER_PREFIX * prefixes + _interfaces(prefixes, per_interface)


def _interfaces(taken: int, per_interface: int) -> int:
    """The interface of the node's own address is there even before the first pod."""
    return max(1, math.ceil(taken / per_interface))
