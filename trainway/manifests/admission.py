"""Admission policies of Kubernetes, bound to the namespaces of teams.

The API server enforces them, without a webhook that could fail.
https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.namespace import PART_OF_TRAINWAY

API = "admissionregistration.k8s.io/v1"
LABELS = "object.metadata.labels"
BEFORE = "oldObject.metadata.labels"


def policy(name: str, rule: dict[str, Any], expression: str, message: str) -> list[dict[str, Any]]:
    """Return a policy that refuses what the CEL expression is false of, and its binding to the teams' namespaces."""
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


def requests(groups: list[str], resources: list[str], operations: list[str]) -> dict[str, Any]:
    """Return the resource rule for operations on namespaced resources of API groups."""
    return {
        "apiGroups": groups,
        "apiVersions": ["*"],
        "resources": resources,
        "operations": operations,
        "scope": "Namespaced",
    }
