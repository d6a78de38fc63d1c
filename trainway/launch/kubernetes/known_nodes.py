"""What Kubernetes knows about the nodes of a run, which `trainway verify` compares with what runs on them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from trainway.launch.kubernetes.kubectl import at, items, kubectl_json
from trainway.launch.kubernetes.placement import selected_nodes
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.program.request import Request
from trainway.launch.target.protocol import Handle, KnownNodes
from trainway.spec.errors import UsageError
from trainway.spec.facts.instance import EFA_RESOURCE


def known_nodes(request: Request, handle: Handle) -> KnownNodes:
    """Return the names of the run's nodes, and the devices that pods can request on each node of its group."""
    return KnownNodes(_nodes_by_hostname(handle), _allocatable_of_group(request, handle))


def allocatable_devices(nodes: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Return, by node, the devices of `kubectl get nodes -o json` that pods can request."""
    return {
        str(node["metadata"]["name"]): {
            resource: int(count)
            for resource, count in (node.get("status", {}).get("allocatable") or {}).items()
            if resource == EFA_RESOURCE or resource.startswith(("nvidia.com/", "aws.amazon.com/neuron"))
        }
        for node in nodes.get("items", ())
    }


def _allocatable_of_group(request: Request, handle: Handle) -> Mapping[str, Mapping[str, int]]:
    """Return, by node of a group, what pods can request; nothing for claimed devices, or without access to nodes."""
    if request.allocation.group.claims:
        return {}
    with suppress(UsageError):
        question = ("get", "nodes", f"--selector={selected_nodes(request)}")
        return allocatable_devices(kubectl_json(*at(handle), *question, what="nodes cannot be seen") or {})
    return {}


def _nodes_by_hostname(handle: Handle) -> Mapping[str, str]:
    """Return the name of each node by the host name that its processes see: the pod's hostname, or else its name.

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
