"""SageMaker HyperPod instance groups, for both of its orchestrators."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_fsx as fsx
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.permissions import Permission, grant, regional_arn
from stacks.constructs.trust import service
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.capacity import TrainingPlan
from trainway.spec.catalogue import Instance, InterfaceKind
from trainway.spec.platform import MOUNT_PATH, HyperPod, NodeGroup, Patching

Cluster = sagemaker.CfnCluster

# What HyperPod hands on to EBS with a grant, when Karpenter adds nodes: the page of `autoscaler_role`.
GRANTED_TO_VOLUMES = (
    "CreateGrant",
    "Decrypt",
    "DescribeKey",
    "GenerateDataKeyWithoutPlaintext",
    "ReEncryptFrom",
    "ReEncryptTo",
    "RetireGrant",
)


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
    settings: HyperPod,
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
        image_id=group.image_id if group else None,
        execution_role=role.role_arn,
        life_cycle_config=Cluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=scripts.source_s3_uri,
            on_create=scripts.on_create if slurm is None else None,
            on_init_complete=scripts.on_init_complete if slurm is not None else None,
        ),
        training_plan_arn=capacity.training_plan if isinstance(capacity, TrainingPlan) else None,
        capacity_requirements=Cluster.ClusterCapacityRequirementsProperty(spot={}) if capacity == "spot" else None,
        on_start_deep_health_checks=_deep_health_checks(instance, settings) if slurm is None else None,
        scheduled_update_config=_patching(settings.patching) if settings.patching else None,
        override_vpc_config=Cluster.VpcConfigProperty(security_group_ids=security_group_ids, subnets=[subnet_id]),
        network_interface=_efa_only(instance),
        instance_storage_configs=_storage(root_volume_gib, settings.volume_key, lustre),
        kubernetes_config=_kubernetes(name, instance) if slurm is None else None,
        slurm_config=slurm,
    )


def node_recovery(settings: HyperPod) -> str:
    """Whether the service replaces or reboots nodes that fail."""
    return "Automatic" if settings.node_recovery else "None"


def tiered_storage(settings: HyperPod) -> Cluster.TieredStorageConfigProperty | None:
    """Memory of the nodes that holds checkpoints, so that a restart reads them from a neighbour."""
    percent = settings.checkpoint_memory_percent
    if percent is None:
        return None
    return Cluster.TieredStorageConfigProperty(mode="Enable", instance_memory_allocation_percentage=percent)


def let_encrypt_volumes(role: iam.Role, settings: HyperPod) -> None:
    """Lets the nodes' execution role hand the volumes' key on to EBS, through SageMaker and for AWS's own use only.

    The conditions are those that AWS asks for in the key's policy, where they are about the same calls.
    https://docs.aws.amazon.com/sagemaker/latest/dg/smcluster-cmk.html, Permissions (read 2026-11-21)
    """
    if settings.volume_key:
        grant(role, *_key_permissions(settings.volume_key))


def autoscaler_role(scope: Construct, id: str, settings: HyperPod) -> iam.Role:
    """The role in which Karpenter, which the service runs, adds and removes nodes, and encrypts their volumes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-iam.html (read 2026-11-21)
    """
    role = iam.Role(scope, id, assumed_by=service("hyperpod.sagemaker"))
    clusters = regional_arn("sagemaker", "cluster/*")
    change = ("sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes")
    grant(role, Permission(change, (clusters,), because="The cluster gets its id when it is made, with this role."))
    if settings.volume_key:
        operations = {"ForAllValues:StringEquals": {"kms:GrantOperations": list(GRANTED_TO_VOLUMES)}}
        grant(role, *_key_permissions(settings.volume_key, operations))
    return role


def _deep_health_checks(instance: Instance, settings: HyperPod) -> list[str] | None:
    """Stress the accelerators and the fabric of a node before a job finds out."""
    return list(settings.deep_health_checks) or None if instance.accelerator else None


def _patching(patching: Patching) -> Cluster.ScheduledUpdateConfigProperty:
    """Some nodes at a time, and back to the image before when an alarm rings."""
    batch = Cluster.CapacitySizeConfigProperty(type="INSTANCE_COUNT", value=patching.batch)
    alarms = [Cluster.AlarmDetailsProperty(alarm_name=name) for name in patching.rollback_alarms]
    return Cluster.ScheduledUpdateConfigProperty(
        schedule_expression=patching.schedule,
        deployment_config=Cluster.DeploymentConfigProperty(
            rolling_update_policy=Cluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            wait_interval_in_seconds=patching.wait_minutes * 60,
            auto_rollback_configuration=alarms or None,
        ),
    )


def _efa_only(instance: Instance) -> Cluster.ClusterNetworkInterfaceProperty | None:
    """EFA devices without an address; otherwise each takes one of the subnet's."""
    if not instance.efa_interfaces:
        return None
    return Cluster.ClusterNetworkInterfaceProperty(interface_type=InterfaceKind.EFA_ONLY.value)


def _key_permissions(key: str, grants: Mapping[str, Any] | None = None) -> list[Permission]:
    through = {"StringEquals": {"kms:ViaService": f"sagemaker.{cdk.Aws.REGION}.amazonaws.com"}}
    for_aws = {**through, "Bool": {"kms:GrantIsForAWSResource": "true"}, **(grants or {})}
    return [
        Permission(("kms:CreateGrant",), (key,), conditions=for_aws),
        Permission(("kms:DescribeKey",), (key,), conditions=through),
    ]


def _storage(
    volume_gib: int, key: str | None, lustre: fsx.CfnFileSystem | None
) -> list[Cluster.ClusterInstanceStorageConfigProperty]:
    """A second volume for images and scratch; under Slurm also the mount, which the service then owns.

    The root volume is the service's own, and of the size that it chooses: it is named only to be given a key.
    """
    volumes = [Cluster.ClusterEbsVolumeConfigProperty(volume_size_in_gb=volume_gib, volume_kms_key_id=key)]
    if key is not None:
        volumes.append(Cluster.ClusterEbsVolumeConfigProperty(root_volume=True, volume_kms_key_id=key))
    storage = [Cluster.ClusterInstanceStorageConfigProperty(ebs_volume_config=volume) for volume in volumes]
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
