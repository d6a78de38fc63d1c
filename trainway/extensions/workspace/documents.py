"""Render a workspace for Kubernetes: a Job, which every scheduler can queue, and a Secret with its token."""

from __future__ import annotations

from typing import Any

from trainway.extensions.workspace.container import TOKEN, command, environment, readiness
from trainway.extensions.workspace.definition import Workspace
from trainway.launch.kubernetes.placement import nodes_of
from trainway.launch.kubernetes.who_shares import MANAGED_BY, RUN_LABEL, labels_of, namespace_of_team, scheduler
from trainway.launch.platform.locations import directory_of_team, opened_directories
from trainway.manifests.life_cycle import pod_failure_policy
from trainway.manifests.pod import USER, Pod, pod_template
from trainway.manifests.taints import tolerations_of
from trainway.spec.facts.catalogue import Catalogue

# How long a workspace that has ended is still there to be looked at.
_KEPT_SECONDS = 3600


def render_workspace(workspace: Workspace, catalogue: Catalogue, token: str) -> list[dict[str, Any]]:
    """Return the Secret and the Job, in the order to apply them in. Raises UsageError if the team is missing."""
    what = f"there is no workspace for {workspace.owner}"
    namespace = namespace_of_team(workspace.hand_off, workspace.team, what=what, nobody="the launch", key="--team")
    metadata = {"name": workspace.name, "namespace": namespace}
    labels = {RUN_LABEL: workspace.name, **MANAGED_BY}
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**metadata, "labels": labels},
            "immutable": True,
            "stringData": {TOKEN: token},
        },
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                **metadata,
                "labels": labels_of(workspace.hand_off, workspace.team, workspace.name, workspace.priority),
            },
            "spec": {
                # All that it does has an end. While a queue holds it back, the time does not run.
                # https://kubernetes.io/docs/concepts/workloads/controllers/job/#suspending-a-job (read 2026-11-21)
                "activeDeadlineSeconds": workspace.hours * 3600,
                "ttlSecondsAfterFinished": _KEPT_SECONDS,
                # A workspace that loses its node starts on another, which does not count as a failure.
                "backoffLimit": 3,
                "podFailurePolicy": pod_failure_policy(),
                "template": pod_template(_pod(workspace, catalogue, labels)),
            },
        },
    ]


def _pod(workspace: Workspace, catalogue: Catalogue, labels: dict[str, str]) -> Pod:
    hand_off, devices = workspace.hand_off, workspace.devices
    memory = f"{devices.memory_gib}Gi"
    # A notebook that takes more memory than its share is killed alone, and not a job that shares the node with it.
    limits = {"memory": memory, **{name: str(count) for name, count in devices.limits.items()}}
    return Pod(
        name="jupyter",
        image=workspace.image,
        command=command(workspace.idle_minutes),
        environment=environment(workspace),
        readiness=readiness(),
        mount_path=hand_off.mount_path,
        claim=hand_off.mounted.claim,
        directory=directory_of_team(hand_off, workspace.team),
        opened=opened_directories(hand_off, workspace.team),
        resources={"requests": {"cpu": str(devices.processors), "memory": memory}, "limits": limits},
        shared_memory_gib=workspace.shared_memory_gib,
        claims=devices.claims,
        tolerations=tolerations_of(catalogue[workspace.group.instance_type]),
        node_selector=nodes_of(hand_off, workspace.group),
        scheduler=scheduler(hand_off),
        user=USER,
        restart_policy="Never",
        labels=labels,
    )
