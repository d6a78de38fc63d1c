"""Pod addresses in a node's subnet: settings of the VPC CNI, and the number of addresses that a node takes."""

from __future__ import annotations

import math
from collections.abc import Mapping

from trainway.spec.facts.catalogue import Instance, InterfaceKind
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator

# A prefix is a /28. https://docs.aws.amazon.com/eks/latest/userguide/cni-increase-ip-addresses.html (read 2026-11-21)
ADDRESSES_PER_PREFIX = 16
# Addresses that are kept free for new pods, so that they do not wait for EC2.
WARM_PREFIXES = 1
WARM_ADDRESSES = 5
# Accelerated nodes run a job's pods and the daemons, and system nodes the add-ons. All other nodes run up to
# Kubernetes' own limit, https://kubernetes.io/docs/setup/best-practices/cluster-large/ (read 2026-11-21)
ACCELERATED_PODS = SYSTEM_PODS = 32
OTHER_PODS = 110


def cni_settings(orchestrator: Orchestrator) -> Mapping[str, str]:
    """Return the VPC CNI's environment.

    EKS nodes take whole prefixes and run as many pods as configured. HyperPod counts single addresses per node. A warm
    target in addresses keeps nodes from taking all addresses of a second interface.
    https://github.com/aws/amazon-vpc-cni-k8s/blob/master/docs/prefix-and-ip-target.md (read 2026-11-21)
    """
    if orchestrator.is_hyperpod:
        return {"WARM_IP_TARGET": str(WARM_ADDRESSES)}
    return {"ENABLE_PREFIX_DELEGATION": "true", "WARM_PREFIX_TARGET": str(WARM_PREFIXES)}


def pods_of_group(group: NodeGroup, instance: Instance, orchestrator: Orchestrator) -> int:
    """Return the maximum number of pods on a node of the group. Under EKS, its kubelet is configured with it.

    HyperPod configures the kubelet itself. Its own number for an accelerated node is the addresses of one interface.
    """
    if group.max_pods:
        return group.max_pods
    capacity = instance.pod_capacity(prefix_delegation=not orchestrator.is_hyperpod)
    if instance.accelerator is None:
        return min(OTHER_PODS, capacity)
    if orchestrator.is_hyperpod:
        return instance.ipv4_addresses_per_interface - 1 - WARM_ADDRESSES
    # Each fraction of a GPU can serve a pod of its own.
    fractions = instance.accelerator.fractions(group.mig) if group.mig else 0
    return min(ACCELERATED_PODS + fractions, capacity)


def addresses_for_pods(instance: Instance, pods: int, orchestrator: Orchestrator) -> int:
    """Return the addresses that a node takes for this number of pods: theirs, the warm ones, and one per interface.

    The result never exceeds what the interfaces of network card 0 can hold.
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
    """Return the number of interfaces in use. The first one exists even without pods, for the node's own address."""
    return max(1, math.ceil(taken / per_interface))
