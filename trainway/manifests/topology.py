"""Position of a node in the network, as levels of node labels for topology-aware scheduling.

EKS labels a node with the network nodes above it. Layer 1 is the widest. The lowest level is the node itself.
https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.facts.catalogue import Instance
from trainway.spec.facts.services import service_facts

HOSTNAME = "kubernetes.io/hostname"


def topology_name(region: str, *types: Instance) -> str:
    """Return the name of the Topology of these types: `network-3`, `network-4`, or `nodes` without network labels.

    Kueue ignores nodes without the label of a level, so one level too many would leave a group, or one of its types,
    without nodes. Every group has a Topology, because jobs that do not request one get only flavors without a Topology
    if a queue has such flavors.
    https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/scheduler/flavorassigner/tas_flavorassigner.go
    (checkPodSetAndFlavorMatchForTAS, read 2026-11-21)
    """
    known = region in service_facts().topology.regions
    layers = min(instance.topology_layers for instance in types) if known else 0
    return f"network-{layers}" if layers else "nodes"


def topology(name: str, api: str) -> dict[str, Any]:
    """Return the Topology of that name, widest level first. Those of Kueue and of the KAI scheduler are alike.

    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/topology/README.md (read 2026-11-21)
    """
    layers = int(name.removeprefix("network-")) if name.startswith("network-") else 0
    labels = [f"topology.k8s.aws/network-node-layer-{layer}" for layer in range(1, layers + 1)]
    return {
        "apiVersion": api,
        "kind": "Topology",
        "metadata": {"name": name},
        "spec": {"levels": [{"nodeLabel": label} for label in (*labels, HOSTNAME)]},
    }
