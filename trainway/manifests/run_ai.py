"""What a platform gives to Run:ai, which its owners install: a namespace per project, and pods in it for its scheduler.

A project has the name of its team. Run:ai finds the namespace of a project by a label of the namespace, and the project
of a pod by the same label.
https://docs.run.ai/v2.20/admin/runai-setup/self-hosted/k8s/project-management
https://docs.nvidia.com/run-ai/self-hosted/documentation/platform-management/runai-scheduler/scheduling/default-scheduler
(both read 2026-11-23)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.admission import BEFORE, LABELS, policy, requests
from trainway.manifests.namespace import namespace_of
from trainway.spec.platform import Platform

PROJECT_LABEL = "runai/queue"
RUN_AI_SCHEDULER = "runai-scheduler"
PROJECT = f"{LABELS}['{PROJECT_LABEL}']"


def project_labels(platform: Platform, namespace: str) -> dict[str, str]:
    """Return the label that makes the namespace that of its team's project. Empty without Run:ai."""
    if not platform.run_ai:
        return {}
    (team,) = (team.name for team in platform.teams if namespace_of(platform, team) == namespace)
    return {PROJECT_LABEL: team}


def run_ai_guard(platform: Platform) -> list[dict[str, Any]]:
    """Return the policies that keep a team's pods in its project and with Run:ai's scheduler. Empty without Run:ai."""
    if not platform.run_ai:
        return []
    # The namespace is the name of the team, or on HyperPod a prefix and the name.
    (prefix,) = {namespace_of(platform, team).removesuffix(team.name) for team in platform.teams}
    return [
        *policy(
            "trainway-queue",
            requests(["*"], ["*"], ["CREATE", "UPDATE"]),
            # Updates that do not change the labels are allowed, so that controllers can remove their finalizers.
            f"!has({LABELS}) || (request.operation == 'UPDATE' && has({BEFORE}) && {BEFORE} == {LABELS}) || "
            f"!('{PROJECT_LABEL}' in {LABELS}) || '{prefix}' + {PROJECT} == request.namespace",
            f"a team's label {PROJECT_LABEL} is the team's name",
        ),
        # A pod with a node's name bypasses every scheduler.
        *policy(
            "trainway-scheduler",
            requests([""], ["pods"], ["CREATE"]),
            f"object.spec.schedulerName == '{RUN_AI_SCHEDULER}' && !has(object.spec.nodeName)",
            f"a team's pods need `schedulerName: {RUN_AI_SCHEDULER}`, and no `nodeName`",
        ),
    ]
