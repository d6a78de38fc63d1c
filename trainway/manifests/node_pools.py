"""Node classes and node pools for HyperPod's Karpenter: which groups it scales, for which pods, and how far.

HyperPod provides the definitions of these objects, and accepts them only after its autoscaling is in service.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodepool.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import taints
from trainway.spec.capacity.autoscaling import autoscaled_groups
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

HYPERPOD_GROUP = "karpenter.sagemaker.amazonaws.com"
# Time for which an idle, paid node waits for the next job.
IDLE = "10m"


def node_pools(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return a node class and a node pool, with the group's name, for each group that Karpenter scales."""
    return [
        manifest
        for group in autoscaled_groups(platform)
        for manifest in (_node_class(group), _node_pool(group, types_of(group, catalogue)))
    ]


def _node_class(group: NodeGroup) -> dict[str, Any]:
    return {
        "apiVersion": f"{HYPERPOD_GROUP}/v1",
        "kind": "HyperpodNodeClass",
        "metadata": {"name": group.name},
        "spec": {"instanceGroups": [group.name]},
    }


def _node_pool(group: NodeGroup, types: Sequence[Instance]) -> dict[str, Any]:
    """Return a node pool with HyperPod's labels and taints for the group, which Karpenter must know in advance.

    No node is removed because of its age or while a job's pod is on it, because training jobs run for long.
    https://karpenter.sh/docs/concepts/nodepools/ (read 2026-11-21)
    """
    template = {
        "nodeClassRef": {"group": HYPERPOD_GROUP, "kind": "HyperpodNodeClass", "name": group.name},
        "requirements": [{"key": "node.kubernetes.io/instance-type", "operator": "Exists"}],
        "expireAfter": "Never",
    }
    if keeps_off := taints(types[0]):
        template["taints"] = keeps_off
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": group.name},
        "spec": {
            "template": {"metadata": {"labels": {NODES_LABEL: group.name}}, "spec": template},
            "limits": _limits(group.largest, types),
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": IDLE},
        },
    }


def _limits(nodes: int, types: Sequence[Instance]) -> dict[str, str]:
    """Return the resources of this number of nodes.

    Nodes without accelerators are counted by CPUs, those of the smallest type.
    """
    accelerator = types[0].accelerator
    if accelerator:
        return {accelerator.resource: str(nodes * accelerator.count)}
    return {"cpu": str(nodes * min(each.vcpus for each in types))}
