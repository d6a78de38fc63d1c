"""ResourceClaimTemplates for jobs: the devices of a whole node, or one GPU and the EFA devices next to it.

Jobs refer to a template by name. A template is immutable, so its name states its content, and groups with the same
number of devices share it. A template requests a number of devices instead of `All`, which Kueue does not count, and
which a ResourceQuota counts as the possible maximum.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/resource-claim-template-v1alpha3
https://kueue.sigs.k8s.io/docs/concepts/dynamic_resource_allocation/#limitations (both read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainway.spec.capacity.devices import EFA_CLASS, GPU_CLASS, devices_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

# Maximum number of devices in one claim. It equals the EFA devices of a P5 node, without its GPUs.
# https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/api/resource/v1/types.go
# (AllocationResultsMaxSize, read 2026-11-21)
LARGEST_CLAIM = 32
SHORT_NAMES = {GPU_CLASS: "gpu", EFA_CLASS: "efa"}
# PCIe root of a device: EFA devices on a GPU's PCIe root access its memory without crossing the processors.
# https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#efa-dra-topology-aware (read 2026-11-21)
PCIE_ROOT = "resource.kubernetes.io/pcieRoot"

# Number of devices by device class.
DeviceRequest = dict[str, int]


def claim_templates(platform: Platform, catalogue: Catalogue, namespace: str) -> list[dict[str, Any]]:
    """Return the templates of one namespace. Empty if no node group has claimed devices."""
    requests = {
        _name(request): request
        for group in platform.node_groups
        for request in (*_whole_node(platform, group, catalogue), *_one_gpu(platform, group, catalogue))
    }
    return [_template(requests[name], namespace) for name in sorted(requests)]


def claims_of_a_node(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the templates that a pod names to claim all devices of a node. A template for two claims appears twice."""
    return tuple(_name(request) for request in _whole_node(platform, group, catalogue))


def _whole_node(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> Iterator[DeviceRequest]:
    for device_class, count in _claimed(platform, group, catalogue).items():
        whole, rest = divmod(count, LARGEST_CLAIM)
        yield from ({device_class: each} for each in (*[LARGEST_CLAIM] * whole, rest) if each)


def _one_gpu(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> Iterator[DeviceRequest]:
    """Yield the requests for one GPU. Yields nothing if GPUs share an EFA device, which only one claim could have."""
    claimed = _claimed(platform, group, catalogue)
    gpus, efas = claimed.get(GPU_CLASS, 0), claimed.get(EFA_CLASS, 0)
    if gpus and efas and efas % gpus == 0:
        yield {GPU_CLASS: 1, EFA_CLASS: efas // gpus}


def _claimed(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> DeviceRequest:
    devices = devices_of(platform, group, catalogue)
    return {device.device_class: device.count for device in devices if device.device_class}


def _name(request: DeviceRequest) -> str:
    return "-".join(f"{SHORT_NAMES[device_class]}-{count}" for device_class, count in request.items())


def _template(request: DeviceRequest, namespace: str) -> dict[str, Any]:
    requests = [
        {
            "name": SHORT_NAMES[device_class],
            "exactly": {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count},
        }
        for device_class, count in request.items()
    ]
    devices: dict[str, Any] = {"requests": requests}
    if len(requests) > 1:
        devices["constraints"] = [{"requests": [each["name"] for each in requests], "matchAttribute": PCIE_ROOT}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": _name(request), "namespace": namespace},
        "spec": {"spec": {"devices": devices}},
    }
