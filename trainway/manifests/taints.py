"""Taints that keep pods off nodes that cannot run them or that others need, and the matching tolerations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

# HyperPod puts this taint on a node while it checks the node's health. Device plugins that do not come with HyperPod
# must tolerate it, because the deep health checks use the devices.
# https://github.com/aws/sagemaker-hyperpod-cli/blob/main/helm_chart/readme.md (read 2026-11-21)
HEALTH_TAINT = {
    "key": "sagemaker.amazonaws.com/node-health-status",
    "value": "Unschedulable",
    "effect": "NoSchedule",
}


def taints(instance: Instance) -> list[dict[str, str]]:
    """Return the taints that the stacks put on nodes of this type, in Kubernetes' spelling.

    One keeps pods without accelerators off accelerated nodes. One keeps pods whose images may be for x86_64 alone, such
    as those of the operators, off Arm nodes. Alibaba's guide to clusters with both kinds of processors recommends it.
    https://help.aliyun.com/en/ack/ack-managed-and-ack-dedicated/user-guide/schedule-workloads-to-arm-based-nodes (read
    2026-11-30)
    """
    found = []
    if instance.accelerator is not None:
        found.append({"key": instance.accelerator.resource, "value": "present", "effect": "NoSchedule"})
    if instance.architecture == "arm64":
        found.append({"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"})
    return found


def tolerations(platform: Platform, catalogue: Catalogue, image: str = DEFAULT_IMAGE) -> list[dict[str, Any]]:
    """Return the tolerations of a pod that can run on every node group with this default image.

    Each taint is tolerated by name. A pod that tolerates every taint also runs on cordoned nodes, and on those that
    HyperPod reserves until their deep health checks are done.
    https://github.com/aws/sagemaker-hyperpod-cli/blob/main/helm_chart/readme.md (read 2026-11-21)
    """
    groups = platform.of_image(image).image_groups
    return tolerations_of(*(each for group in groups for each in types_of(group, catalogue)))


def tolerations_of(*instances: Instance) -> list[dict[str, Any]]:
    """Return the tolerations of a pod that runs on nodes of any of these types."""
    keys = {taint["key"] for instance in instances for taint in taints(instance)}
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in sorted(keys)]


def daemon_tolerations(
    platform: Platform, catalogue: Catalogue, node_groups: Sequence[NodeGroup]
) -> list[dict[str, Any]]:
    """Return the tolerations of a DaemonSet that serves the devices of these node groups.

    They cover the taints of every instance type of the groups, and on HyperPod the taint of a node under health checks.
    A chart's own list is replaced by this one, because Helm replaces lists instead of merging them.
    """
    tolerated = tolerations_of(*(each for group in node_groups for each in types_of(group, catalogue)))
    if platform.orchestrator.is_hyperpod:
        tolerated.append({**HEALTH_TAINT, "operator": "Equal"})
    return tolerated
