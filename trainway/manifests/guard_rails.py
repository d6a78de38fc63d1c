"""Limits of each team's namespace, for resources that a queue does not count, or for platforms without a queue."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.namespace import namespace_of
from trainway.spec.capacity.devices import Device, devices_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team
from trainway.spec.teams.shares import guaranteed_nodes

NAME = "guard-rails"
# Finished jobs and the objects around them use the control plane that all teams share.
# https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count (read 2026-11-21)
JOBS_KEPT = 1000
DOCUMENTS_KEPT = 500
CLAIMS = 10


def guard_rails(platform: Platform, catalogue: Catalogue, team: Team) -> list[dict[str, Any]]:
    """Return the LimitRange and the ResourceQuota of one team's namespace."""
    metadata = {"name": NAME, "namespace": namespace_of(platform, team)}
    ceilings = _object_counts(platform) | ({} if team.borrow else _guaranteed_devices(platform, catalogue, team))
    return [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata,
            # Kubernetes schedules a container without requests as if it used nothing, possibly on a full node, and no
            # quota counts it. There is no default limit, because it would throttle and kill training processes that
            # request only devices. There is no default request for disk either, because no queue covers disk, and Kueue
            # would never admit the pod.
            # https://kubernetes.io/docs/concepts/policy/limit-range/ (read 2026-11-21)
            "spec": {"limits": [{"type": "Container", "defaultRequest": {"cpu": "1", "memory": "4Gi"}}]},
        },
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": metadata,
            "spec": {"hard": {name: str(count) for name, count in ceilings.items()}},
        },
    ]


def _object_counts(platform: Platform) -> dict[str, int]:
    return {
        # Jobs do not serve requests. These services would open a port outside the cluster, or create a paid load
        # balancer.
        "services.loadbalancers": 0,
        "services.nodeports": 0,
        # The claims of the file systems, and a few more. Each may create a paid disk.
        "persistentvolumeclaims": CLAIMS,
        "configmaps": DOCUMENTS_KEPT,
        "secrets": DOCUMENTS_KEPT,
        **{f"count/{plural}.{group}": JOBS_KEPT for group, plural in job_kinds(platform)},
    }


def _guaranteed_devices(platform: Platform, catalogue: Catalogue, team: Team) -> dict[str, int]:
    """Return the devices of the team's guaranteed nodes, with 0 for devices of other nodes."""
    nodes, devices = guaranteed_nodes(platform)[team.name], Counter[str]()
    for group in platform.node_groups:
        for device in devices_of(platform, group, catalogue):
            devices[_ceiling(device)] += nodes[group.name] * device.count
    return dict(devices)


def _ceiling(device: Device) -> str:
    """Return the ResourceQuota key of a device, which differs for claimed and requested devices.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-for-dra-resource-claims (read 2026-11-21)
    """
    if device.device_class:
        return f"{device.device_class}.deviceclass.resource.k8s.io/devices"
    return f"requests.{device.resource}"
