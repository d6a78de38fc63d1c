"""Where a node is in the network, as levels of node labels for topology-aware scheduling.

EKS labels a node with the network nodes above it, layer 1 being the widest; the last level of all is the node itself.
https://docs.aws.amazon.com/eks/latest/userguide/ml-workload-topology.html (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.facts.catalogue import Instance
from trainway.spec.facts.services import service_facts

HOSTNAME = "kubernetes.io/hostname"


def topology_name(region: str, *types: Instance) -> str:
    """The Topology of nodes of these types: `network-3` or `network-4`, and `nodes` where no label tells their place.

    Kueue sees no node that lacks the label of a level, so one level too many would leave a group without nodes, or
    without those of one type. And every group has a Topology: where one flavor of a queue has none, jobs that ask for
    no place get only such flavors.
    https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/pkg/scheduler/flavorassigner/tas_flavorassigner.go
    (checkPodSetAndFlavorMatchForTAS, read 2026-11-21)
    """
    known = region in service_facts().topology.regions
    layers = min(instance.topology_layers for instance in types) if known else 0
    return f"network-{layers}" if layers else "nodes"


def topology(name: str, api: str) -> dict[str, Any]:
    """The Topology of that name, the widest level first; Kueue's and the KAI scheduler's are alike.

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
