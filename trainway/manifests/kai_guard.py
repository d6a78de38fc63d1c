"""Admission policies that keep a team's pods in its queue.

The KAI scheduler itself serves any queue that a pod names.
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.admission import BEFORE, LABELS, policy, requests
from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.kai import QUEUE_LABEL, SCHEDULER
from trainway.spec.platform import Platform

QUEUE = f"{LABELS}['{QUEUE_LABEL}']"


def kai_guard(platform: Platform) -> list[dict[str, Any]]:
    """Return three policies and their bindings to the teams' namespaces. Empty without the KAI scheduler."""
    if not platform.kai:
        return []
    groups, jobs = (list(dict.fromkeys(words)) for words in zip(*job_kinds(platform), strict=True))
    return [
        # KAI takes the queue from the object at the end of a pod's chain of owners, of any kind, then from the pod, and
        # then from their label `project`. The namespace of a team has its queue's name.
        # https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/pkg/podgrouper/podgrouper/plugins/defaultgrouper/default_grouper.go
        # (CalcPodGroupQueue, read 2026-11-21)
        *policy(
            "trainway-queue",
            requests(["*"], ["*"], ["CREATE", "UPDATE"]),
            # Updates that do not change the labels are allowed, so that controllers can remove their finalizers.
            f"!has({LABELS}) || (request.operation == 'UPDATE' && has({BEFORE}) && {BEFORE} == {LABELS}) || "
            f"('{QUEUE_LABEL}' in {LABELS} ? {QUEUE} == request.namespace : !('project' in {LABELS}))",
            f"a team's label {QUEUE_LABEL} is the team's name; without it nothing has the label `project`",
        ),
        # A job without a queue would wait forever in one that does not exist.
        *policy(
            "trainway-job-queue",
            requests(groups, jobs, ["CREATE"]),
            f"has(object.metadata.ownerReferences) || (has({LABELS}) && '{QUEUE_LABEL}' in {LABELS})",
            f"a job needs the label {QUEUE_LABEL} with the team's name",
        ),
        # A pod with a node's name bypasses every scheduler.
        *policy(
            "trainway-scheduler",
            requests([""], ["pods"], ["CREATE"]),
            f"object.spec.schedulerName == '{SCHEDULER}' && !has(object.spec.nodeName)",
            f"a team's pods need `schedulerName: {SCHEDULER}`, and no `nodeName`",
        ),
    ]
