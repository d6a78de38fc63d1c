"""What no team's namespace exceeds, whoever shares the nodes: what a queue does not count, or is not there to count."""

from __future__ import annotations

from collections import Counter
from typing import Any

from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.namespace import namespace_of
from trainway.manifests.shares import guaranteed_nodes
from trainway.spec.derived.devices import Device, devices_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team

NAME = "guard-rails"
# What is kept of jobs that have ended, and beside them, fills the one control plane that all teams share.
# https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-on-object-count (read 2026-11-21)
JOBS_KEPT = 1000
DOCUMENTS_KEPT = 500
CLAIMS = 10


def guard_rails(platform: Platform, catalogue: Catalogue, team: Team) -> list[dict[str, Any]]:
    """The LimitRange and the ResourceQuota of one team's namespace."""
    metadata = {"name": NAME, "namespace": namespace_of(platform, team)}
    ceilings = _object_counts(platform) | ({} if team.borrow else _guaranteed_devices(platform, catalogue, team))
    return [
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": metadata,
            # A container that asks for nothing is placed as if it used nothing, on a node that may be full, and is in
            # no quota. It gets no default limit, which would throttle and kill training processes that ask for devices
            # only; and no request for disk, which no queue covers, so that Kueue would never let the pod run.
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
        # A job serves nobody, and these would open its port outside the cluster, a load balancer at a price.
        "services.loadbalancers": 0,
        "services.nodeports": 0,
        # The file system's own, and room for a few; each may be a disk that is paid for.
        "persistentvolumeclaims": CLAIMS,
        "configmaps": DOCUMENTS_KEPT,
        "secrets": DOCUMENTS_KEPT,
        **{f"count/{plural}.{group}": JOBS_KEPT for group, plural in job_kinds(platform)},
    }


def _guaranteed_devices(platform: Platform, catalogue: Catalogue, team: Team) -> dict[str, int]:
    """Devices of the nodes that the team is guaranteed, 0 of those that only other nodes have."""
    nodes, devices = guaranteed_nodes(platform)[team.name], Counter[str]()
    for group in platform.node_groups:
        for device in devices_of(platform, group, catalogue):
            devices[_ceiling(device)] += nodes[group.name] * device.count
    return dict(devices)


def _ceiling(device: Device) -> str:
    """What a ResourceQuota calls the devices of a class that are claimed, and those that are requested.

    https://kubernetes.io/docs/concepts/policy/resource-quotas/#quota-for-dra-resource-claims (read 2026-11-21)
    """
    if device.device_class:
        return f"{device.device_class}.deviceclass.resource.k8s.io/devices"
    return f"requests.{device.resource}"
