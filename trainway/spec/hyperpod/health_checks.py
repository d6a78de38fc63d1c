"""Deep health checks of a new HyperPod node before it takes jobs."""

from __future__ import annotations

from trainway.spec.capacity.autoscaling import is_autoscaled
from trainway.spec.facts.instance import Instance
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.node_group import NodeGroup


def deep_health_checks(
    group: NodeGroup, instance: Instance, settings: HyperPod, *, kubernetes: bool
) -> tuple[str, ...]:
    """Return the checks that stress a node's accelerators and fabric. Under Slurm, only those of GPUs.

    Empty for groups that Karpenter scales: it does not support checks that take an hour while a pod waits for the node.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-deep-health-checks.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-deep-health-checks.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html (all read
    2026-11-21)
    """
    if instance.accelerator is None or is_autoscaled(group, settings):
        return ()
    return settings.deep_health_checks if kubernetes or instance.accelerator.vendor == "nvidia" else ()
