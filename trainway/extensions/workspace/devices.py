"""The part of a node that a workspace has: accelerators or fractions of one, and a share of processors and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trainway.spec.facts.instance import EFA_RESOURCE, Instance
from trainway.spec.handoff import Nodes

# What kubelet and the node's own pods have of it is left to them.
_SHARE = 0.8
# Without accelerators there is nothing to have a share by.
_PROCESSORS, _MEMORY_GIB = 4, 16
_FRACTION = "nvidia.com/mig-"


@dataclass(frozen=True)
class Devices:
    """`limits` are devices by the names of resources, `claims` ResourceClaimTemplates; `memory_gib` is in GiB."""

    limits: Mapping[str, int]
    claims: tuple[str, ...]
    processors: int
    memory_gib: int


def is_divided(group: Nodes) -> bool:
    """Return whether the group's GPUs are fractions: docs/devices.md."""
    return any(name.startswith(_FRACTION) for name in group.devices)


def devices_of_workspace(group: Nodes, instance: Instance, count: int) -> Devices | str:
    """Return what a workspace with this number of accelerators requests, or why it cannot exist.

    None of it is an EFA device, which serves nobody on a single node, but where GPUs are claimed: the templates of the
    teams' namespaces have one GPU with the EFA devices beside it (trainway/manifests/device_claims.py).
    """
    if not instance.accelerator:
        if count > 1:
            return f"{group.instance_type} has no accelerator"
        return Devices({}, (), min(_PROCESSORS, instance.vcpus // 2), min(_MEMORY_GIB, instance.memory_gib // 2))
    counted = group.devices or ({} if group.claims else instance.devices)
    resource, of_node = next(((name, each) for name, each in counted.items() if name != EFA_RESOURCE), (None, 0))
    claimed = dict(_parts(template) for template in group.claims)
    of_node = of_node or claimed.get("gpu", 0)
    if not 1 <= count <= of_node:
        return f"a node of {group.name} has {of_node} accelerators, and it would have {count}"
    processors = max(1, int(instance.vcpus * count / of_node * _SHARE))
    memory = max(1, int(instance.memory_gib * count / of_node * _SHARE))
    if resource is not None:
        return Devices({resource: count}, (), processors, memory)
    efas = claimed.get("efa", 0)
    if count == of_node:
        return Devices({}, group.claims, processors, memory)
    if not efas or efas % of_node:
        return f"the GPUs of {group.name} are claimed {of_node} at a time"
    return Devices({}, (f"gpu-1-efa-{efas // of_node}",) * count, processors, memory)


def _parts(template: str) -> tuple[str, int]:
    """Return the kind and the number of devices: `gpu` and 8 of `gpu-8`."""
    name, _, count = template.rpartition("-")
    return name, int(count)
