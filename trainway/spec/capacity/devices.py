"""Devices that pods can request on the nodes of a group: whole accelerators or fractions of them, and EFA.

The plan, the quotas, the claims, and the hand-off all use these counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.facts.instance import EFA_RESOURCE
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

GPU_RESOURCE = "nvidia.com/gpu"
# Device classes of the DRA drivers:
# https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#efa-dra-driver
# https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-dra-device-plugin.html#eks-nvidia-dra-driver
# (both read 2026-11-21)
EFA_CLASS = "efa.networking.k8s.aws"
GPU_CLASS = "gpu.nvidia.com"


@dataclass(frozen=True)
class Device:
    """One kind of device. Each node has `count` of it.

    Quotas count it by the name `resource`. A pod requests it by that name too, unless it has a `device_class`: then the
    pod claims it.
    """

    resource: str
    count: int
    device_class: str | None = None


def devices_of(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> tuple[Device, ...]:
    """Return the devices of each node of the group, accelerators first. All types of a group have the same devices."""
    classes = device_classes(platform)
    instance = catalogue[group.instance_type]
    return tuple(Device(name, count, classes.get(name)) for name, count in _counts(group, instance).items())


def device_counts(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> dict[str, int]:
    """Return the number of devices of a node, by the names that quotas count them by."""
    return {device.resource: device.count for device in devices_of(platform, group, catalogue)}


def ranks_of(group: NodeGroup, instance: Instance) -> int:
    """Return the number of training processes of one job on a node.

    It is one if GPUs are divided, because NCCL does not connect fractions.
    https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html#eks-mig-considerations (read
    2026-11-21)
    """
    return 1 if group.mig else instance.ranks


def device_classes(platform: Platform) -> dict[str, str]:
    """Return the device class of each resource whose devices are claimed."""
    kubernetes = platform.kubernetes_or_default
    classes = {}
    if kubernetes.gpu_devices == "dra":
        classes[GPU_RESOURCE] = GPU_CLASS
    if kubernetes.efa_devices_or_default == "dra":
        classes[EFA_RESOURCE] = EFA_CLASS
    return classes


def _counts(group: NodeGroup, instance: Instance) -> dict[str, int]:
    """Return the number of devices by resource. Fractions have names of their own, by MIG's strategy `mixed`.

    https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html#eks-mig-strategies
    (read 2026-11-21)
    """
    counts = dict(instance.devices)
    if group.mig and instance.accelerator:
        del counts[instance.accelerator.resource]
        counts = {f"nvidia.com/mig-{group.mig}": instance.accelerator.fractions(group.mig), **counts}
    return counts
