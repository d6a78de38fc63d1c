"""What keeps pods that use no accelerator off the nodes that are paid for theirs."""

from __future__ import annotations

from typing import Any

from trainway.spec.catalogue import Catalogue, Instance
from trainway.spec.group_types import all_types
from trainway.spec.platform import Platform


def taints(instance: Instance) -> list[dict[str, str]]:
    """The taints that the stacks put on nodes of this type, in Kubernetes' own spelling; none without accelerators."""
    if instance.accelerator is None:
        return []
    return [{"key": instance.accelerator.resource, "value": "present", "effect": "NoSchedule"}]


def tolerations(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """What lets a pod run on every node group.

    Each taint by its name: a pod that tolerates every taint also lands on nodes that are cordoned, and on those that
    HyperPod holds back until their deep health checks are done.
    https://github.com/aws/sagemaker-hyperpod-cli/blob/main/helm_chart/readme.md (read 2026-11-21)
    """
    keys = {taint["key"] for instance in all_types(platform, catalogue) for taint in taints(instance)}
    return [{"key": key, "operator": "Exists", "effect": "NoSchedule"} for key in sorted(keys)]
