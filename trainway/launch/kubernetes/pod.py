"""The pods of a run, whichever kind of object makes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.launch.kubernetes.job_file import DIRECTORY, VOLUME
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.placement import close_together, node_selector, resources
from trainway.launch.kubernetes.process import STOP_SECONDS
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL, scheduler
from trainway.launch.request import Request
from trainway.manifests.lustre_volume import CLAIM
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.manifests.taints import taints
from trainway.manifests.training_runtime import resource_claims
from trainway.spec.catalogue import Catalogue

# The image's user (container/Dockerfile); nothing that a job does needs another, nor any capability.
USER = 1000


def pod_security() -> dict[str, Any]:
    """Of the pod."""
    return {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER}


def container_security() -> dict[str, Any]:
    """Of the container."""
    return {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod_labels(request: Request) -> dict[str, str]:
    """By which the pods of a run are found again."""
    return {RUN_LABEL: request.run, **MANAGED_BY}


def job_file_volume(request: Request) -> dict[str, Any]:
    """The job file, as a volume of the pod."""
    return {"name": VOLUME, "configMap": {"name": request.run}}


def job_file_mount() -> dict[str, Any]:
    """Where the container has it."""
    return {"name": VOLUME, "mountPath": str(DIRECTORY), "readOnly": True}


def pod_template(
    request: Request, options: KubernetesOptions, catalogue: Catalogue, container: Mapping[str, Any]
) -> dict[str, Any]:
    """The template of a pod that has a node to itself; `container` has its name, its command and its environment.

    There are no huge pages: the image tells libfabric to use none, and no queue covers them, so that a job which asks
    for them would wait for good.
    """
    hand_off, group = request.hand_off, request.allocation.group
    instance = catalogue[group.instance_type]
    spec_claims, container_claims = resource_claims(group.claims)
    return {
        "metadata": {"labels": pod_labels(request), "annotations": close_together(request, options)},
        "spec": {
            **scheduler(hand_off),
            "serviceAccountName": SERVICE_ACCOUNT,
            "nodeSelector": node_selector(request),
            "tolerations": [
                {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]} for taint in taints(instance)
            ],
            "securityContext": pod_security(),
            "terminationGracePeriodSeconds": STOP_SECONDS,
            **spec_claims,
            "containers": [
                {
                    "image": request.image,
                    **container,
                    "resources": {**resources(request, catalogue), **container_claims},
                    "securityContext": container_security(),
                    "volumeMounts": [
                        {"name": "fsx", "mountPath": hand_off.file_system.mount_path},
                        {"name": "shared-memory", "mountPath": "/dev/shm"},
                        job_file_mount(),
                    ],
                }
            ],
            "volumes": [
                {"name": "fsx", "persistentVolumeClaim": {"claimName": CLAIM}},
                # NCCL and data workers share memory through it; a container's default of 64 MiB stops them.
                {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
                job_file_volume(request),
            ],
        },
    }
