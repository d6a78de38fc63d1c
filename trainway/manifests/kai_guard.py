"""Admission policies that keep a team's pods in its queue. The KAI scheduler itself serves any queue that a pod names.

The API server enforces the policies, without a webhook that could fail.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.kai import QUEUE_LABEL, SCHEDULER
from trainway.manifests.namespace import PART_OF_TRAINWAY
from trainway.spec.platform import Platform

API = "admissionregistration.k8s.io/v1"
LABELS = "object.metadata.labels"
BEFORE = "oldObject.metadata.labels"
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
        *_policy(
            "trainway-queue",
            _rule(["*"], ["*"], ["CREATE", "UPDATE"]),
            # Updates that do not change the labels are allowed, so that controllers can remove their finalizers.
            f"!has({LABELS}) || (request.operation == 'UPDATE' && has({BEFORE}) && {BEFORE} == {LABELS}) || "
            f"('{QUEUE_LABEL}' in {LABELS} ? {QUEUE} == request.namespace : !('project' in {LABELS}))",
            f"a team's label {QUEUE_LABEL} is the team's name; without it nothing has the label `project`",
        ),
        # A job without a queue would wait forever in one that does not exist.
        *_policy(
            "trainway-job-queue",
            _rule(groups, jobs, ["CREATE"]),
            f"has(object.metadata.ownerReferences) || (has({LABELS}) && '{QUEUE_LABEL}' in {LABELS})",
            f"a job needs the label {QUEUE_LABEL} with the team's name",
        ),
        # A pod with a node's name bypasses every scheduler.
        *_policy(
            "trainway-scheduler",
            _rule([""], ["pods"], ["CREATE"]),
            f"object.spec.schedulerName == '{SCHEDULER}' && !has(object.spec.nodeName)",
            f"a team's pods need `schedulerName: {SCHEDULER}`, and no `nodeName`",
        ),
    ]


def _policy(name: str, rule: dict[str, Any], expression: str, message: str) -> list[dict[str, Any]]:
    selector = {"namespaceSelector": {"matchLabels": PART_OF_TRAINWAY}}
    return [
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": {**selector, "resourceRules": [rule]},
                "validations": [{"expression": expression, "message": message}],
            },
        },
        {
            "apiVersion": API,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {"policyName": name, "validationActions": ["Deny"]},
        },
    ]


def _rule(groups: list[str], resources: list[str], operations: list[str]) -> dict[str, Any]:
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    }
