"""The node groups that scale with the jobs, by the Cluster Autoscaler on EKS and by Karpenter on HyperPod."""

from __future__ import annotations

from typing import NamedTuple

from trainway.spec.capacity.capacity_times import deployed_count
from trainway.spec.capacity.devices import device_counts, devices_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.capacity import CapacityBlock
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.orchestrator import Orchestrator


class Sizes(NamedTuple):
    """The minimum, initial, and maximum number of nodes of a managed node group."""

    least: int
    first: int
    most: int


def is_autoscaled(group: NodeGroup, settings: HyperPod) -> bool:
    """Return whether HyperPod scales the group: its count is 0, and its capacity is not reserved.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-nodeclass.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-spot.html (both read 2026-11-21)
    """
    return settings.autoscaling and group.count == 0 and isinstance(group.capacity, str)


def autoscaled_groups(platform: Platform) -> tuple[NodeGroup, ...]:
    """Return the node groups that HyperPod scales with waiting pods, in the order of the file."""
    return tuple(group for group in platform.node_groups if is_autoscaled(group, platform.hyperpod_or_default))


def scaled_groups(platform: Platform, catalogue: Catalogue) -> tuple[NodeGroup, ...]:
    """Return the node groups that the Cluster Autoscaler scales between count and max_count, in the file's order."""
    return tuple(group for group in platform.node_groups if _scales(platform, group, catalogue))


def fixed_because(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> str | None:
    """Return why a group of EKS with room to grow keeps its count. None if it scales, or has no room.

    For a node that does not exist yet, the autoscaler knows only what EKS and the tags of the node group state: its
    labels, taints, and counted devices. Claimed devices and divided GPUs are known only after the node has started.
    https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/aws_manager.go
    (buildNodeFromTemplate, read 2026-11-22)
    """
    fixed = _fixed(platform, group, catalogue)
    return fixed and fixed.because


class Fixed(NamedTuple):
    """What keeps a group at its count: a key of the platform file, and the reason in words."""

    key: str
    because: str


def _fixed(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> Fixed | None:
    if platform.orchestrator is not Orchestrator.EKS or group.largest == group.count:
        return None
    if not platform.kubernetes_or_default.autoscaling:
        return Fixed("kubernetes.autoscaling", "kubernetes.autoscaling is false")
    if isinstance(group.capacity, CapacityBlock):
        return Fixed("capacity", "its Capacity Block is paid for from start to end")
    if group.mig:
        return Fixed("mig", "its GPUs are divided after a node has started")
    if any(device.device_class for device in devices_of(platform, group, catalogue)):
        gpus = platform.kubernetes_or_default.gpu_devices == "dra"
        key = f"kubernetes.{'gpu' if gpus else 'efa'}_devices"
        return Fixed(key, "its devices are claimed, and are known after a node has started")
    return None


def growth(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> tuple[int, str | None]:
    """Return the most nodes that a group has until another deploy, and the key that keeps it below its `max_count`.

    The key is None for a group that scales, and for one without room. The owner of an adopted cluster can have an
    autoscaler, which finds the groups by EKS's own tags: such a group can have `max_count` nodes as well.
    """
    if group.largest == group.count:
        return group.count, None
    if platform.orchestrator is Orchestrator.EKS:
        fixed = _fixed(platform, group, catalogue)
        owners = platform.adopted_cluster is not None and fixed is not None and fixed.key == "kubernetes.autoscaling"
        return (group.largest, None) if fixed is None or owners else (group.count, fixed.key)
    if platform.orchestrator is Orchestrator.HYPERPOD_SLURM or not isinstance(group.capacity, str):
        return group.count, "count"
    if is_autoscaled(group, platform.hyperpod_or_default):
        return group.largest, None
    return group.count, "count" if platform.hyperpod_or_default.autoscaling else "hyperpod.autoscaling"


def node_group_sizes(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> Sizes:
    """Return the sizes of a group of EKS.

    The autoscaler finds every node group of the cluster by EKS's own tags. If it runs, a group that keeps its count has
    no room to scale, because the autoscaler would remove its idle nodes. The schedules of a Capacity Block may set any
    size of its group.
    """
    scaled = scaled_groups(platform, catalogue)
    if group in scaled:
        return Sizes(group.count, group.count, group.largest)
    if scaled and not isinstance(group.capacity, CapacityBlock):
        return Sizes(group.count, group.count, max(group.count, 1))
    return Sizes(0, deployed_count(group), group.largest)


def resource_tags(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> dict[str, str]:
    """Return the tags of a node group that tell the autoscaler the devices of nodes that do not exist yet.

    https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md
    (Auto-discovery setup, read 2026-11-22)
    """
    if not _scales(platform, group, catalogue):
        return {}
    counts = device_counts(platform, group, catalogue)
    return {f"k8s.io/cluster-autoscaler/node-template/resources/{name}": str(count) for name, count in counts.items()}


def _scales(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> bool:
    room = platform.orchestrator is Orchestrator.EKS and group.largest > group.count
    return room and fixed_because(platform, group, catalogue) is None
