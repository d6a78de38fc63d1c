"""Charts that a platform installs in its cluster, by the names under which delivery/mirror.yaml pins them."""

from __future__ import annotations

from collections.abc import Sequence

from trainway.spec.capacity.autoscaling import scaled_groups
from trainway.spec.capacity.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.sections.image import RegistryLogin
from trainway.spec.sections.orchestrator import Orchestrator

HYPERPOD = "hyperpod-helm-chart"
EFA_PLUGIN = "aws-efa-k8s-device-plugin"
EFA_DRA = "aws-dranet"
NVIDIA_PLUGIN = "nvidia-device-plugin"
NVIDIA_DRA = "dra-driver-nvidia-gpu"
GPU_OPERATOR = "gpu-operator"
NEURON_PLUGIN = "neuron-helm-chart"
DCGM_EXPORTER = "dcgm-exporter"
PROVISIONING_REQUESTS = "provisioning-requests"
CLUSTER_AUTOSCALER = "cluster-autoscaler"
KUEUE = "kueue"
KAI = "kai-scheduler"
RUN_AI = "runai-cluster"
TRAINER = "kubeflow-trainer"
MPI_OPERATOR = "mpi-operator"
RAY_OPERATOR = "kuberay-operator"
PYTORCH_OPERATOR = "training-operators"

# Their publishers have them in Docker Hub alone. No copy of theirs was found in another registry (read 2026-12-01).
IN_DOCKER_HUB = (MPI_OPERATOR, PYTORCH_OPERATOR)


def docker_hub_login(platform: Platform, charts: Sequence[str]) -> RegistryLogin | None:
    """Return the login to Docker Hub if one of the charts has its image there, or None."""
    return platform.kubernetes_or_default.docker_hub_login if {*IN_DOCKER_HUB} & {*charts} else None


def chart_names(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """Return the chosen charts in the order of installation. Empty under Slurm."""
    if not platform.orchestrator.is_kubernetes:
        return ()
    instances = all_types(platform, catalogue)
    vendors = {instance.accelerator.vendor for instance in instances if instance.accelerator}
    efa, kubernetes = any(instance.efa_interfaces for instance in instances), platform.kubernetes_or_default
    scaled = bool(scaled_groups(platform, catalogue))
    adopted = platform.adopted_cluster
    theirs = adopted.device_plugins if adopted else ()
    chosen = {
        # HyperPod requires its chart in the cluster before it creates nodes.
        HYPERPOD: platform.orchestrator is Orchestrator.HYPERPOD_EKS,
        # One for each kind of device: two on a node would both allocate it.
        # https://docs.aws.amazon.com/eks/latest/userguide/device-management.html#_considerations (read 2026-11-21)
        EFA_PLUGIN: efa and kubernetes.efa_devices_or_default == "plugin" and "efa" not in theirs,
        EFA_DRA: efa and kubernetes.efa_devices_or_default == "dra",
        NVIDIA_PLUGIN: "nvidia" in vendors and kubernetes.gpu_devices == "plugin" and "nvidia" not in theirs,
        NVIDIA_DRA: "nvidia" in vendors and kubernetes.gpu_devices == "dra",
        GPU_OPERATOR: "nvidia" in vendors and kubernetes.gpu_devices == "operator",
        NEURON_PLUGIN: "neuron" in vendors and "neuron" not in theirs,
        DCGM_EXPORTER: "nvidia" in vendors and collector_of(platform) is Collector.AWS_MANAGED,
        # Kueue and the autoscaler look for the definition only when they start.
        PROVISIONING_REQUESTS: scaled and platform.kueue,
        CLUSTER_AUTOSCALER: scaled,
        # Kueue comes before the components that create jobs, so that no job bypasses the queues.
        KUEUE: platform.kueue,
        KAI: platform.kai,
        TRAINER: kubernetes.trainer,
        PYTORCH_OPERATOR: platform.pytorch_operator,
        MPI_OPERATOR: kubernetes.mpi_operator,
        RAY_OPERATOR: kubernetes.ray_operator,
        # It looks for the operators of jobs.
        RUN_AI: platform.installed_run_ai is not None,
    }
    return tuple(name for name, is_chosen in chosen.items() if is_chosen)
