"""`kubernetes`: the EKS cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.sections.endpoint import EndpointOrPrivate
from trainway.spec.sections.fields import Principal
from trainway.spec.sections.node_repair import NodeRepair
from trainway.spec.values import Matches, Section

DEFAULT_VERSION = kubernetes_versions().default


class SystemNodes(Section):
    """The CPU nodes that carry the cluster's own pods."""

    instance_type: str = Field("m7i.2xlarge", description="A CPU instance type of the catalogue.")
    count: int = Field(2, ge=1, description="Number of system nodes. With two, the cluster survives the loss of one.")


class ControlPlaneCapacity(Section):
    """How much capacity EKS keeps ready for the cluster's control plane."""

    # The tiers that both the API and CloudFormation's schema have; the latter also has tier-ultra.
    tier: Literal["standard", "tier-xl", "tier-2xl", "tier-4xl", "tier-8xl"] = Field(
        description="Scaling tier of the control plane, changed in place. standard follows the load. The others keep "
        "a fixed capacity, at an hourly price; only standard ends it.",
    )


class Kubernetes(Section):
    """The EKS cluster, for the orchestrators eks and hyperpod-eks."""

    version: Annotated[
        str,
        Matches(r"1\.\d\d", "it is not a Kubernetes minor version", f'write it in quotes, as in "{DEFAULT_VERSION}"'),
    ] = Field(
        DEFAULT_VERSION,
        description="The Kubernetes minor version, in quotes. Default: the newest that EKS, HyperPod, and the charts "
        "support.",
    )
    control_plane: ControlPlaneCapacity | None = Field(
        None, description="Capacity of the control plane. Default: EKS's, which is the tier standard."
    )
    system_nodes: SystemNodes = Field(default_factory=SystemNodes)
    node_repair: NodeRepair | None = Field(
        None, description="How EKS repairs nodes of the node groups, with the orchestrator eks. Default: EKS's own way."
    )
    autoscaling: bool = Field(
        True,
        description="Whether the nodes of a group whose max_count is above its count come and go with the jobs, with "
        "the orchestrator eks. false: each group keeps its count.",
    )
    admins: tuple[Principal, ...] = Field((), description="IAM roles and users that administer the cluster.")
    viewers: tuple[Principal, ...] = Field((), description="IAM roles and users with read-only access to the cluster.")
    endpoint: EndpointOrPrivate = Field(
        None,
        description="From where the Kubernetes API answers, beside the VPC: private, from nowhere, or {public_to: "
        "[ranges]}, from the ranges. Changed in place. Default: private; docs/kubernetes-access.md has the ways in.",
    )
    queues: Literal["kueue", "kai", "none"] = Field(
        "kueue",
        description="What holds jobs until nodes are free, with the orchestrator eks; HyperPod has its own. kueue "
        "shares nodes of every type. kai, the KAI scheduler, shares GPUs, and can take a part of an elastic job.",
    )
    gpu_devices: Literal["plugin", "dra", "operator"] = Field(
        "plugin",
        description="What gives NVIDIA GPUs to pods: NVIDIA's device plugin, its DRA driver, or its GPU operator, "
        "which a group with `mig` needs. HyperPod has the plugin.",
    )
    efa_devices: Literal["plugin", "dra"] | None = Field(
        None,
        description="What gives EFA devices to pods: the EFA device plugin or the EFA DRA driver; HyperPod has the "
        "plugin. Default: dra where gpu_devices is dra, else plugin, so that both come from one PCIe root.",
    )
    trainer: bool = Field(True, description="Jobs of Kubeflow Trainer, TrainJob, and the runtimes that they refer to.")
    parallel_image_pull: bool = Field(
        True,
        description="Layers of an image are fetched and unpacked at once, by the SOCI snapshotter, with the "
        "orchestrator eks: on accelerated nodes with disks of their own, which take what that writes.",
    )
    mpi_operator: bool = Field(False, description="Install the MPI Operator, which runs MPIJob v2beta1.")
    pytorch_operator: bool | None = Field(
        None,
        description="Kubeflow's training operator v1, which runs PyTorchJob. HyperPod documents auto-resume and task "
        "governance for that kind. Default: true with hyperpod-eks, false with eks. `hyperpod.training_operator` is "
        "another operator, of HyperPod's own.",
    )

    @property
    def efa_devices_or_default(self) -> Literal["plugin", "dra"]:
        """How pods get EFA devices. Default: as they get GPUs, because only then are both of one PCIe root.

        Plugins do so on EKS's images, and claims where both drivers are DRA drivers.
        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#efa-dra-topology-aware
        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#eks-efa-device-plugin
        (both read 2026-11-21)
        """
        return self.efa_devices or ("dra" if self.gpu_devices == "dra" else "plugin")
