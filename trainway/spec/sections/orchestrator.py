"""Who starts the jobs."""

from __future__ import annotations

from enum import StrEnum


class Orchestrator(StrEnum):
    """The orchestrator of a platform: the system that schedules jobs and replaces failed nodes."""

    EKS = "eks"
    HYPERPOD_EKS = "hyperpod-eks"
    HYPERPOD_SLURM = "hyperpod-slurm"

    @property
    def is_kubernetes(self) -> bool:
        """True where jobs are Kubernetes objects."""
        return self is not Orchestrator.HYPERPOD_SLURM

    @property
    def is_hyperpod(self) -> bool:
        """True where SageMaker HyperPod owns the accelerated nodes."""
        return self is not Orchestrator.EKS
