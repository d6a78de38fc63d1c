"""The kinds of job that people start on the platform."""

from __future__ import annotations

from trainway.spec.platform import Platform


def job_kinds(platform: Platform) -> tuple[tuple[str, str], ...]:
    """API group and plural name of each kind, HyperPod's own where its training operator is there to run it.

    https://github.com/awslabs/awsome-distributed-training/blob/main/3.test_cases/pytorch/FSDP/kubernetes/llama3_1_8b-fsdp-hpto.yaml
    (read 2026-11-21)
    """
    kinds = [("batch", "jobs")]
    if platform.kubernetes_or_default.trainer:
        kinds.insert(0, ("trainer.kubeflow.org", "trainjobs"))
    if platform.kubernetes_or_default.mpi_operator:
        kinds.append(("kubeflow.org", "mpijobs"))
    if platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator:
        kinds.append(("sagemaker.amazonaws.com", "hyperpodpytorchjobs"))
    return tuple(kinds)
