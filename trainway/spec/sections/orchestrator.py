"""The orchestrators."""

from __future__ import annotations

from enum import StrEnum


class Orchestrator(StrEnum):
    """The orchestrator of a platform: the system that schedules jobs and replaces failed nodes."""

    EKS = "eks"
    HYPERPOD_EKS = "hyperpod-eks"
    HYPERPOD_SLURM = "hyperpod-slurm"

    @property
    def is_kubernetes(self) -> bool:
        """Whether jobs are Kubernetes objects."""
        return self is not Orchestrator.HYPERPOD_SLURM

    @property
    def is_hyperpod(self) -> bool:
        """Whether SageMaker HyperPod manages the accelerated nodes."""
        return self is not Orchestrator.EKS
