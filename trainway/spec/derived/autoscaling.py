"""Which node groups HyperPod's Karpenter makes and removes nodes of."""

from __future__ import annotations

from trainway.spec.platform import Platform
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.node_group import NodeGroup


def is_autoscaled(group: NodeGroup, settings: HyperPod) -> bool:
    """Whether its nodes come and go with the pods that wait: it begins without any, and they are not paid for already.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html (both read 2026-11-21)
    """
    return settings.autoscaling and group.count == 0 and isinstance(group.capacity, str)


def autoscaled_groups(platform: Platform) -> tuple[NodeGroup, ...]:
    """Return the node groups that HyperPod scales with waiting pods, in the order of the file."""
    return tuple(group for group in platform.node_groups if is_autoscaled(group, platform.hyperpod_or_default))
