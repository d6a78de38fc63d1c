"""Which charts a platform installs in its cluster, by the names that delivery/mirror.yaml pins them under."""

from __future__ import annotations

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator

HYPERPOD = "hyperpod-helm-chart"
EFA_PLUGIN = "aws-efa-k8s-device-plugin"
NVIDIA_PLUGIN = "nvidia-device-plugin"
NEURON_PLUGIN = "neuron-helm-chart"
KUEUE = "kueue"
TRAINER = "kubeflow-trainer"
MPI_OPERATOR = "mpi-operator"


def chart_names(platform: Platform, catalogue: Catalogue) -> tuple[str, ...]:
    """The chosen charts in the order they are installed in; none under Slurm."""
    if not platform.orchestrator.is_kubernetes:
        return ()
    instances = [catalogue[group.instance_type] for group in platform.node_groups]
    vendors = {instance.accelerator.vendor for instance in instances if instance.accelerator}
    chosen = {
        # HyperPod wants its chart in the cluster before it makes nodes.
        HYPERPOD: platform.orchestrator is Orchestrator.HYPERPOD_EKS,
        EFA_PLUGIN: any(instance.efa_interfaces for instance in instances),
        NVIDIA_PLUGIN: "nvidia" in vendors,
        NEURON_PLUGIN: "neuron" in vendors,
        # Before whoever makes jobs, so that no job starts past the queues.
        KUEUE: platform.kueue,
        TRAINER: True,
        MPI_OPERATOR: platform.kubernetes_or_default.mpi_operator,
    }
    return tuple(name for name, is_chosen in chosen.items() if is_chosen)
