"""The kinds of jobs that people start on the platform."""

from __future__ import annotations

from trainway.spec.platform import Platform


def job_kinds(platform: Platform) -> tuple[tuple[str, str], ...]:
    """Return API group and plural name of each kind, including HyperPod's own if its training operator is installed.

    https://github.com/awslabs/awsome-distributed-training/blob/main/3.test_cases/pytorch/FSDP/kubernetes/llama3_1_8b-fsdp-hpto.yaml
    (read 2026-11-21)
    """
    kinds = [("batch", "jobs")]
    if platform.kubernetes_or_default.trainer:
        # Trainer's chart brings JobSet.
        kinds[:0] = [("trainer.kubeflow.org", "trainjobs"), ("jobset.x-k8s.io", "jobsets")]
    if platform.pytorch_operator:
        kinds.append(("kubeflow.org", "pytorchjobs"))
    if platform.kubernetes_or_default.mpi_operator:
        kinds.append(("kubeflow.org", "mpijobs"))
    if platform.kubernetes_or_default.ray_operator:
        kinds += [("ray.io", "rayjobs"), ("ray.io", "rayclusters")]
    if platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator:
        kinds.append(("sagemaker.amazonaws.com", "hyperpodpytorchjobs"))
    return tuple(kinds)


def launch_kinds(platform: Platform) -> tuple[str, ...]:
    """Return the kinds that `trainway launch` can submit to the platform, the default first; none under Slurm.

    On HyperPod the default is PyTorchJob: auto-resume is documented for that kind alone, and AWS's examples of task
    governance queue that kind and HyperPodPyTorchJob. No page of AWS's says that task governance queues a TrainJob.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-run-jobs-kubectl.html
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-run-jobs-hyperpod-cli.html
    https://github.com/awslabs/awsome-distributed-ai/blob/main/1.architectures/7.sagemaker-hyperpod-eks/task-governance/1-imagenet-gpu-team-a.yaml
    https://github.com/aws/sagemaker-hyperpod-cli/blob/main/examples/end_to_end_walkthrough/03-task-governance/00-task-governance.md
    (all read 2026-11-22)
    """
    if not platform.orchestrator.is_kubernetes:
        return ()
    installed = {
        "TrainJob": platform.kubernetes_or_default.trainer,
        "PyTorchJob": platform.pytorch_operator,
        "HyperPodPyTorchJob": platform.orchestrator.is_hyperpod and platform.hyperpod_or_default.training_operator,
        "MPIJob": platform.kubernetes_or_default.mpi_operator,
        "JobSet": platform.kubernetes_or_default.trainer,
        "RayJob": platform.kubernetes_or_default.ray_operator,
    }
    documented = ("PyTorchJob", "HyperPodPyTorchJob") if platform.orchestrator.is_hyperpod else ()
    order = (*documented, *(kind for kind in installed if kind not in documented))
    return tuple(kind for kind in order if installed[kind])
