"""`kubernetes`: the EKS cluster."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.facts.kubernetes_versions import kubernetes_versions
from trainway.spec.sections.endpoint import EndpointOrPrivate
from trainway.spec.sections.existing import ExistingCluster
from trainway.spec.sections.fields import Principal
from trainway.spec.sections.image import RegistryLogin
from trainway.spec.sections.node_repair import NodeRepair
from trainway.spec.sections.run_ai import RunAi
from trainway.spec.values import Matches, Section

DEFAULT_VERSION = kubernetes_versions().default


class SystemNodes(Section):
    """CPU nodes for the cluster's system pods."""

    instance_type: str = Field("m7i.2xlarge", description="CPU instance type from the catalogue.")
    count: int = Field(2, ge=1, description="Number of system nodes. With two, the cluster survives the loss of one.")


class ControlPlaneCapacity(Section):
    """Capacity that EKS reserves for the cluster's control plane."""

    # The tiers that both the API and CloudFormation's schema have; the latter also has tier-ultra.
    tier: Literal["standard", "tier-xl", "tier-2xl", "tier-4xl", "tier-8xl"] = Field(
        description="Scaling tier of the control plane. It can change without a replacement. standard scales with "
        "the load. The other tiers keep a fixed capacity at an hourly price until you change back to standard.",
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
        None, description="Capacity of the control plane. Default: the tier standard."
    )
    system_nodes: SystemNodes = Field(default_factory=SystemNodes)
    node_repair: NodeRepair | None = Field(
        None, description="With the orchestrator eks. How EKS repairs unhealthy nodes. Default: EKS's own settings."
    )
    autoscaling: bool = Field(
        True,
        description="With the orchestrator eks. Whether groups with a max_count above their count add nodes for "
        "waiting jobs and remove idle ones. false keeps each group at its count.",
    )
    admins: tuple[Principal, ...] = Field((), description="IAM roles and users that administer the cluster.")
    viewers: tuple[Principal, ...] = Field((), description="IAM roles and users with read-only access to the cluster.")
    endpoint: EndpointOrPrivate = Field(
        None,
        description="Who reaches the Kubernetes API from outside the VPC. Either private (nobody), or {public_to: "
        "[CIDR blocks]}. It can change without a replacement. Default: private. docs/kubernetes-access.md shows how "
        "to connect.",
    )
    queues: Literal["kueue", "kai", "run-ai", "none"] = Field(
        "kueue",
        description="With the orchestrator eks. Job queue that holds jobs until nodes are free. kueue shares nodes "
        "of every type. kai, the KAI scheduler, shares GPUs and can preempt a part of an elastic job. run-ai is "
        "Run:ai, also on HyperPod without task governance: a cluster that you install, or with `run_ai` one that the "
        "deploy installs. Otherwise, HyperPod has its own queue.",
    )
    run_ai: RunAi | None = Field(
        None,
        description="Install Run:ai's cluster, and make a project of each team. It implies `queues: run-ai`. Default: "
        "with `queues: run-ai`, you install the cluster yourself.",
    )
    gpu_devices: Literal["plugin", "dra", "operator"] = Field(
        "plugin",
        description="How pods get NVIDIA GPUs, by NVIDIA's device plugin, its DRA driver, or its GPU Operator. A "
        "group with `mig` requires the operator. HyperPod has the plugin.",
    )
    efa_devices: Literal["plugin", "dra"] | None = Field(
        None,
        description="How pods get EFA devices, by the EFA device plugin or the EFA DRA driver. HyperPod has the "
        "plugin. Default: dra if gpu_devices is dra, otherwise plugin. GPUs and EFA devices of a pod then share a "
        "PCIe root.",
    )
    trainer: bool = Field(True, description="Install Kubeflow Trainer, which runs TrainJobs, and its runtimes.")
    parallel_image_pull: bool = Field(
        True,
        description="With the orchestrator eks. Pull and unpack the layers of an image in parallel with the SOCI "
        "snapshotter. Only on accelerated nodes with local disks.",
    )
    mpi_operator: bool = Field(False, description="Install the MPI Operator, which runs MPIJob v2beta1.")
    ray_operator: bool = Field(False, description="Install KubeRay, which runs RayJobs and Ray clusters.")
    pytorch_operator: bool | None = Field(
        None,
        description="Install Kubeflow's training operator v1, which runs PyTorchJobs. HyperPod documents auto-resume "
        "and task governance for PyTorchJobs. Default: true with hyperpod-eks, false with eks. "
        "`hyperpod.training_operator` is HyperPod's own operator.",
    )
    docker_hub_login: RegistryLogin | None = Field(
        None,
        description="Login to Docker Hub, which alone has the images of `mpi_operator` and `pytorch_operator`. Without "
        "it, the limit of Docker Hub for the address of your builds can refuse their first copy. Default: none.",
    )
    observability: bool | None = Field(
        None,
        description="With the orchestrator eks. Collect metrics, whatever `observability.metrics` says. Default: as "
        "`observability.metrics` says.",
    )
    existing: ExistingCluster | None = Field(
        None,
        description="With the orchestrator eks. An existing cluster in the adopted VPC, used instead of a new one. "
        "`trainway adopt` writes this section.",
    )

    @property
    def chosen_queues(self) -> Literal["kueue", "kai", "run-ai", "none"]:
        """The scheduler that shares the nodes between teams: Run:ai with `run_ai`, otherwise `queues`."""
        return "run-ai" if self.run_ai else self.queues

    @property
    def efa_devices_or_default(self) -> Literal["plugin", "dra"]:
        """How pods get EFA devices. Default: as they get GPUs, because only then are both of one PCIe root.

        Plugins do so on EKS's images, and claims where both drivers are DRA drivers.
        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#efa-dra-topology-aware
        https://docs.aws.amazon.com/eks/latest/userguide/device-management-efa.html#eks-efa-device-plugin
        (both read 2026-11-21)
        """
        return self.efa_devices or ("dra" if self.gpu_devices == "dra" else "plugin")
