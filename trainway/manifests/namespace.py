"""Where a team's jobs live."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform

DEFAULT_NAMESPACE = "training"
SERVICE_ACCOUNT = "training-job"


def namespaces(platform: Platform) -> tuple[str, ...]:
    """One namespace a team, or one for everybody where the file names no teams."""
    return tuple(team.name for team in platform.teams) or (DEFAULT_NAMESPACE,)


def team_namespace(name: str) -> list[dict[str, Any]]:
    """The namespace, and the service account whose pods get the job's IAM role by EKS Pod Identity."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": {"app.kubernetes.io/part-of": "trainway"}},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": name},
            # The job speaks to AWS, never to the Kubernetes API.
            "automountServiceAccountToken": False,
        },
    ]
