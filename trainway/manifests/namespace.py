"""Namespaces of the teams' jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team

DEFAULT_NAMESPACE = "training"
SERVICE_ACCOUNT = "training-job"
# Kueue's chart, and KAI's guard, manage only pods of namespaces with this label.
PART_OF_TRAINWAY = {"app.kubernetes.io/part-of": "trainway"}


def namespace_of(platform: Platform, team: Team) -> str:
    """Return the namespace of a team's jobs.

    HyperPod's task governance governs only namespaces that begin with `hyperpod-ns-`.
    https://github.com/aws/sagemaker-hyperpod-cli/blob/main/src/hyperpod_cli/constants/command_constants.py
    (read 2026-11-21)
    """
    return f"hyperpod-ns-{team.name}" if platform.task_governance else _where_jobs_resume(platform, team.name)


def namespaces(platform: Platform) -> tuple[str, ...]:
    """Return one namespace per team, or one for everybody if the file names no teams."""
    one = _where_jobs_resume(platform, DEFAULT_NAMESPACE)
    return tuple(namespace_of(platform, team) for team in platform.teams) or (one,)


def _where_jobs_resume(platform: Platform, name: str) -> str:
    """Return the namespace's name as HyperPod's auto-resume requires it: it begins with `hyperpod`.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-run-jobs-hyperpod-cli.html (read 2026-11-22)
    """
    return f"hyperpod-{name}" if platform.orchestrator.is_hyperpod else name


def pod_security(platform: Platform) -> str:
    """Return the level of the Pod Security Standards that the namespaces of teams enforce.

    Without directories of teams, each pod that mounts the file system opens directories there as root. The container of
    KubeRay 1.7.0 that submits a job drops no capability, and no field of a RayJob changes that. The level of the pods
    of SageMaker Spaces is not known.
    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/common/job.go
    (GetDefaultSubmitterContainer, read 2026-11-27)
    """
    spaces = platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.spaces
    opens_as_root = platform.storage.lustre is not None and not platform.storage.team_directories
    return "baseline" if opens_as_root or platform.kubernetes_or_default.ray_operator or spaces else "restricted"


def team_namespace(
    name: str, more_labels: Mapping[str, str] | None = None, level: str = "baseline"
) -> list[dict[str, Any]]:
    """Return the namespace, and the service account whose pods get the job's IAM role by EKS Pod Identity.

    The namespace has `more_labels` beside its own. `level` is the Pod Security level that it enforces.
    """
    labels = {
        **(more_labels or {}),
        **PART_OF_TRAINWAY,
        # A privileged pod, or one with a host path, has access to all devices of the node, its role, and the secrets of
        # its other pods, bypassing every quota and role. Jobs need neither.
        # https://kubernetes.io/docs/concepts/security/pod-security-standards/ (read 2026-11-27)
        "pod-security.kubernetes.io/enforce": level,
    }
    return [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": name, "labels": labels},
        },
        {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": SERVICE_ACCOUNT, "namespace": name},
            # Jobs use AWS, but not the Kubernetes API.
            "automountServiceAccountToken": False,
        },
    ]
