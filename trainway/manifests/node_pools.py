"""What HyperPod's Karpenter is told: of which node groups it makes nodes, for whose pods, and how many.

HyperPod brings the definitions of these objects, and takes them only once its autoscaling is in service.
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodepool.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import taints
from trainway.spec.derived.autoscaling import autoscaled_groups
from trainway.spec.derived.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

HYPERPOD_GROUP = "karpenter.sagemaker.amazonaws.com"
# How long a node that has no job any more stays for the next one, and is paid for.
IDLE = "10m"


def node_pools(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """A node class and a node pool for each group that Karpenter makes nodes of, by the group's name."""
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
    """The labels and taints are those that HyperPod puts on the group's nodes: Karpenter must know them beforehand.

    No node is removed while a job's pod is on it, nor for its age: a training job outlives both.
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
    """What so many nodes have; of CPUs, by which nodes without accelerators are counted, those of the smallest type."""
    accelerator = types[0].accelerator
    if accelerator:
        return {accelerator.resource: str(nodes * accelerator.count)}
    return {"cpu": str(nodes * min(each.vcpus for each in types))}
