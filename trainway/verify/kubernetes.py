"""What Kubernetes knows of the nodes that are proved."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from trainway.launch.kubernetes.kubectl import at, items, kubectl_json
from trainway.launch.kubernetes.placement import node_selector
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.request import Request
from trainway.launch.target import Handle
from trainway.spec.errors import UsageError
from trainway.verify.facts import allocatable_devices


def allocatable_of_group(request: Request, handle: Handle) -> Mapping[str, Mapping[str, int]]:
    """By node of the group, what pods can ask for; nothing where devices are claimed, or one may not look at nodes."""
    if request.allocation.group.claims:
        return {}
    selector = ",".join(f"{label}={value}" for label, value in node_selector(request).items())
    with suppress(UsageError):
        question = ("get", "nodes", f"--selector={selector}")
        return allocatable_devices(kubectl_json(*at(handle), *question, what="nodes cannot be seen") or {})
    return {}


def nodes_by_hostname(handle: Handle) -> Mapping[str, str]:
    """The names of nodes by those that processes on them are told: the pod's hostname, or else its name.

    https://github.com/kubernetes/kubernetes/blob/v1.34.0/pkg/controller/job/job_controller.go sets it (read 2026-11-22)
    """
    question = ("get", "pods", f"--selector={RUN_LABEL}={handle['name']}")
    with suppress(UsageError):
        pods = items(kubectl_json(*at(handle), *question, what="pods cannot be seen"))
        return {
            str(pod["spec"].get("hostname", pod["metadata"]["name"])): str(pod["spec"]["nodeName"])
            for pod in pods
            if "nodeName" in pod["spec"]
        }
    return {}
