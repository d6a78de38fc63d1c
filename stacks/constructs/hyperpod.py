"""SageMaker HyperPod instance groups, for both of its orchestrators."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.capacity import TrainingPlan
from trainway.spec.catalogue import Instance, InterfaceKind
from trainway.spec.platform import MOUNT_PATH, NodeGroup

Cluster = sagemaker.CfnCluster


@dataclass(frozen=True)
class LifeCycleScripts:
    """Where HyperPod finds what a node runs.

    Under Kubernetes a node runs `on_create.sh` as it is created. Under Slurm it runs `on_init_complete.sh`, after the
    service has configured Slurm and mounted the file system itself; giving both is refused.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html (read 2026-11-21)
    """

    source_s3_uri: str
    on_create: str = "on_create.sh"
    on_init_complete: str = "on_init_complete.sh"


def instance_group(
    *,
    name: str,
    instance: Instance,
    count: int,
    role: iam.IRole,
    scripts: LifeCycleScripts,
    subnet_id: str,
    security_group_ids: list[str],
    root_volume_gib: int,
    group: NodeGroup | None = None,
    slurm: Cluster.ClusterSlurmConfigProperty | None = None,
    lustre: fsx.CfnFileSystem | None = None,
) -> Cluster.ClusterInstanceGroupProperty:
    """One instance group; `group` is None for nodes that the platform adds, `slurm` and `lustre` are None under EKS."""
    capacity = group.capacity if group else "on-demand"
    return Cluster.ClusterInstanceGroupProperty(
        instance_group_name=name,
        instance_type=instance.hyperpod_name,
        instance_count=count,
        execution_role=role.role_arn,
        life_cycle_config=Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=scripts.source_s3_uri,
            on_create=scripts.on_create if slurm is None else None,
            on_init_complete=scripts.on_init_complete if slurm is not None else None,
        ),
        training_plan_arn=capacity.training_plan if isinstance(capacity, TrainingPlan) else None,
        capacity_requirements=Cluster.ClusterCapacityRequirementsProperty(spot={}) if capacity == "spot" else None,
        on_start_deep_health_checks=_deep_health_checks(instance) if slurm is None else None,
        override_vpc_config=Cluster.VpcConfigProperty(security_group_ids=security_group_ids, subnets=[subnet_id]),
        network_interface=_efa_only(instance),
        instance_storage_configs=_storage(root_volume_gib, lustre),
        kubernetes_config=_kubernetes(name, instance) if slurm is None else None,
        slurm_config=slurm,
    )


def _deep_health_checks(instance: Instance) -> list[str] | None:
    """Stress the accelerators and the fabric of a node before a job finds out."""
    return ["InstanceStress", "InstanceConnectivity"] if instance.accelerator else None


def _efa_only(instance: Instance) -> Cluster.ClusterNetworkInterfaceProperty | None:
    """EFA devices without an address; otherwise each takes one of the subnet's."""
    if not instance.efa_interfaces:
        return None
    return Cluster.ClusterNetworkInterfaceProperty(interface_type=InterfaceKind.EFA_ONLY.value)


def _storage(volume_gib: int, lustre: fsx.CfnFileSystem | None) -> list[Cluster.ClusterInstanceStorageConfigProperty]:
    """A second volume for images and scratch; under Slurm also the mount, which the service then owns."""
    storage = [
        Cluster.ClusterInstanceStorageConfigProperty(
            ebs_volume_config=Cluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=volume_gib)
        )
    ]
    if lustre is not None:
        mount = Cluster.ClusterFsxLustreConfigProperty(
            dns_name=lustre.attr_dns_name, mount_name=lustre.attr_lustre_mount_name, mount_path=MOUNT_PATH
        )
        storage.append(Cluster.ClusterInstanceStorageConfigProperty(fsx_lustre_config=mount))
    return storage


def _kubernetes(name: str, instance: Instance) -> Cluster.ClusterKubernetesConfigProperty:
    taints = None
    if instance.accelerator is not None:
        taint = Cluster.ClusterKubernetesTaintProperty(
            key=instance.accelerator.resource, value="present", effect="NoSchedule"
        )
        taints = [taint]
    return Cluster.ClusterKubernetesConfigProperty(labels={NODES_LABEL: name}, taints=taints)
