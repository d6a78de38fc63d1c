"""EKS add-ons of a platform's cluster, by AWS's names."""

from __future__ import annotations

from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform

# AWS keeps these add-ons current and compatible. Pods of the second list need a node to become ready.
VPC_CNI = "vpc-cni"
BEFORE_NODES = (VPC_CNI, "kube-proxy", "eks-pod-identity-agent")
FSX_DRIVER = "aws-fsx-csi-driver"
ON_NODES = ("coredns", "metrics-server", "eks-node-monitoring-agent", FSX_DRIVER)
# HyperPod's own add-ons, and the one that the training operator and Spaces require.
CERT_MANAGER = "cert-manager"
TRAINING_OPERATOR = "amazon-sagemaker-hyperpod-training-operator"
OBSERVABILITY = "amazon-sagemaker-hyperpod-observability"
TASK_GOVERNANCE = "amazon-sagemaker-hyperpod-taskgovernance"
# The exporters that an AWS managed collector scrapes. EKS calls them community add-ons:
# https://docs.aws.amazon.com/eks/latest/userguide/community-addons.html (read 2026-11-27)
EXPORTERS = NODE_EXPORTER, STATE_METRICS = "prometheus-node-exporter", "kube-state-metrics"
# SageMaker Spaces, and the driver of the volumes of spaces.
SPACES = "amazon-sagemaker-spaces"
EBS_DRIVER = "aws-ebs-csi-driver"
OF_HYPERPOD = (CERT_MANAGER, TRAINING_OPERATOR, EBS_DRIVER, SPACES, OBSERVABILITY, TASK_GOVERNANCE)
EVERY_ADDON = BEFORE_NODES + ON_NODES + EXPORTERS + OF_HYPERPOD


def _base_addons(platform: Platform) -> tuple[str, ...]:
    """Return the EKS add-ons of every orchestrator. The driver of FSx is there for platforms with a file system."""
    mounts = bool(platform.storage.lustre_by_key)
    return BEFORE_NODES + tuple(name for name in ON_NODES if name != FSX_DRIVER or mounts)


def addon_names(platform: Platform) -> tuple[str, ...]:
    """Return the EKS add-ons that the stacks install: those that an adopted cluster lacks. Empty under Slurm."""
    there = platform.adopted_cluster.addons if platform.adopted_cluster else {}
    return tuple(name for name in addons_in_cluster(platform) if name not in there)


def addons_in_cluster(platform: Platform) -> tuple[str, ...]:
    """Return the EKS add-ons that the platform needs in its cluster, whoever installs them. Empty under Slurm."""
    if not platform.orchestrator.is_kubernetes:
        return ()
    asked, hyperpod = platform.hyperpod_or_default, platform.orchestrator.is_hyperpod
    chosen = {
        CERT_MANAGER: hyperpod and (asked.training_operator or asked.spaces),
        TRAINING_OPERATOR: hyperpod and asked.training_operator,
        EBS_DRIVER: hyperpod and asked.spaces,
        SPACES: hyperpod and asked.spaces,
        OBSERVABILITY: collector_of(platform) is Collector.HYPERPOD_ADDON,
        TASK_GOVERNANCE: platform.task_governance,
        **dict.fromkeys(EXPORTERS, collector_of(platform) is Collector.AWS_MANAGED),
    }
    return _base_addons(platform) + tuple(name for name, is_chosen in chosen.items() if is_chosen)
