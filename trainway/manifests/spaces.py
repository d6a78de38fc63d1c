"""Limits of SageMaker Spaces in the namespaces of teams, and what members of a team may do with spaces.

A space is a Workspace of jupyter-k8s, whose controller makes a Deployment with one pod of it. The definition calls the
time-out of an idle space `idleTimeoutInMinutes`, which AWS's page spells in another way.
https://docs.aws.amazon.com/sagemaker/latest/dg/customization.html
https://github.com/jupyter-infra/jupyter-k8s/blob/v0.2.0/config/crd/bases/workspace.jupyter.org_workspaces.yaml
https://github.com/jupyter-infra/jupyter-k8s/blob/v0.2.0/config/rbac/workspace_editor_role.yaml (all read 2026-11-24)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.admission import LABELS, policy, requests
from trainway.manifests.queue_labels import queue_labels
from trainway.spec.platform import Platform

GROUP = "workspace.jupyter.org"
CONNECTION_GROUP = "connection.workspace.jupyter.org"
_WORKSPACES = requests([GROUP], ["workspaces"], ["CREATE", "UPDATE"])
# A space that is stopped, or deleted, has no pod. Its controller removes finalizers from it.
_HAS_NO_POD = (
    "(has(object.metadata.deletionTimestamp) || "
    "(has(object.spec.desiredStatus) && object.spec.desiredStatus == 'Stopped'))"
)
_SHUTS_DOWN = "(has(object.spec.idleShutdown) && object.spec.idleShutdown.enabled)"


def space_permissions(platform: Platform) -> list[tuple[str, str, list[str]]]:
    """Return API groups, resources, and verbs of a team's members in their namespace. Empty without Spaces.

    To create a connection is to ask for the URL by which VS Code connects.
    """
    if not _has_spaces(platform):
        return []
    write = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return [(GROUP, "workspaces", write), (CONNECTION_GROUP, "workspaceconnections", ["create"])]


def space_guard(platform: Platform) -> list[dict[str, Any]]:
    """Return the policies for spaces in the namespaces of teams. Empty without Spaces or teams.

    A space without idle shutdown keeps its accelerators until somebody stops it. Under task governance, one without the
    label of its team's queue uses nodes that no quota counts.
    """
    if not _has_spaces(platform) or not platform.teams:
        return []
    found = policy(
        "trainway-space-idle",
        _WORKSPACES,
        f"{_HAS_NO_POD} || {_SHUTS_DOWN}",
        "a team's space needs `idleShutdown: {enabled: true, idleTimeoutInMinutes: 60, detection: {httpGet: "
        "{path: /api/idle, port: 8888}}}`",
    )
    if platform.task_governance:
        (label,) = queue_labels(platform)
        queue = f"{LABELS}['{label}']"
        found += policy(
            "trainway-space-queue",
            _WORKSPACES,
            f"{_HAS_NO_POD} || (has({LABELS}) && '{label}' in {LABELS} && "
            f"{queue} == request.namespace + '-localqueue')",
            f"a team's space needs the label {label} with the queue of its namespace",
        )
    return found


def _has_spaces(platform: Platform) -> bool:
    return platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.spaces
