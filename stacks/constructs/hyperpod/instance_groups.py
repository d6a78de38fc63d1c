"""SageMaker HyperPod instance groups, for both of its orchestrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.hyperpod.hyperpod_patching import patching
from stacks.constructs.hyperpod.hyperpod_volumes import let_autoscaler_encrypt_volumes, storage
from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from stacks.constructs.iam.trust import service
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import taints
from trainway.spec.derived.health_checks import deep_health_checks
from trainway.spec.facts.catalogue import Instance, InterfaceKind
from trainway.spec.sections.capacity import TrainingPlan
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.node_group import NodeGroup

CfnCluster = sagemaker.CfnCluster


@dataclass(frozen=True)
class LifeCycleScripts:
    """Location and entry points of HyperPod's lifecycle scripts.

    Under Kubernetes a node runs `on_create.sh` when it is created. Under Slurm it runs `on_init_complete.sh`, after the
    service has configured Slurm and mounted the file system. HyperPod refuses both together.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-slurm-api-config-migration.html (read 2026-11-21)
    """

    source_s3_uri: str
    on_create: str = "on_create.sh"
    on_init_complete: str = "on_init_complete.sh"


def instance_group(
    *,
    name: str,
    instance: Instance,
    or_instances: Sequence[Instance] = (),
    count: int,
    role: iam.IRole,
    scripts: LifeCycleScripts,
    subnet_id: str,
    security_group_ids: list[str],
    root_volume_gib: int,
    settings: HyperPod,
    group: NodeGroup | None = None,
    slurm: CfnCluster.ClusterSlurmConfigProperty | None = None,
    mounts: Sequence[CfnCluster.ClusterInstanceStorageConfigProperty] = (),
) -> CfnCluster.ClusterInstanceGroupProperty:
    """Return an instance group. `group` is None for nodes that the platform adds. EKS has neither `slurm` nor `mounts`.

    If no `instance` is available, HyperPod uses the first available one of `or_instances`.
    """
    capacity = group.capacity if group else "on-demand"
    checks = deep_health_checks(group, instance, settings, kubernetes=slurm is None) if group else ()
    types = [str(each.hyperpod_name) for each in (instance, *or_instances)]
    return CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=name,
        instance_type=None if or_instances else instance.hyperpod_name,
        instance_requirements=CfnCluster.InstanceRequirementsProperty(instance_types=types) if or_instances else None,
        instance_count=count,
        min_instance_count=(group.min_count or None) if group else None,
        image_id=group.image_id if group else None,
        image_release_version=group.image_version if group else None,
        execution_role=role.role_arn,
        life_cycle_config=CfnCluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=scripts.source_s3_uri,
            on_create=scripts.on_create if slurm is None else None,
            on_init_complete=scripts.on_init_complete if slurm is not None else None,
        ),
        training_plan_arn=capacity.training_plan if isinstance(capacity, TrainingPlan) else None,
        capacity_requirements=CfnCluster.ClusterCapacityRequirementsProperty(spot={}) if capacity == "spot" else None,
        on_start_deep_health_checks=list(checks) or None,
        override_vpc_config=CfnCluster.VpcConfigProperty(security_group_ids=security_group_ids, subnets=[subnet_id]),
        network_interface=_efa_only(instance),
        instance_storage_configs=[*storage(root_volume_gib, settings.volume_key), *mounts],
        kubernetes_config=_kubernetes(name, instance) if slurm is None else None,
        slurm_config=slurm,
        **patching(settings, group, kubernetes=slurm is None),
    )


def node_recovery(settings: HyperPod) -> str:
    """Return whether the service replaces or reboots nodes that fail."""
    return "Automatic" if settings.node_recovery else "None"


def autoscaler_role(scope: Construct, id: str, settings: HyperPod) -> iam.Role:
    """Return the role with which the service's Karpenter adds and removes nodes, and encrypts their volumes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-autoscaling-iam.html (read 2026-11-21)
    """
    role = iam.Role(scope, id, assumed_by=service("hyperpod.sagemaker"))
    clusters = regional_arn("sagemaker", "cluster/*")
    change = ("sagemaker:BatchAddClusterNodes", "sagemaker:BatchDeleteClusterNodes")
    grant(role, Permission(change, (clusters,), because="The cluster gets its id when it is made, with this role."))
    let_autoscaler_encrypt_volumes(role, settings)
    return role


def _efa_only(instance: Instance) -> CfnCluster.ClusterNetworkInterfaceProperty | None:
    """Return efa-only network interfaces. Otherwise each EFA device takes an address of the subnet."""
    if not instance.efa_interfaces:
        return None
    return CfnCluster.ClusterNetworkInterfaceProperty(interface_type=InterfaceKind.EFA_ONLY.value)


def _kubernetes(name: str, instance: Instance) -> CfnCluster.ClusterKubernetesConfigProperty:
    found = [CfnCluster.ClusterKubernetesTaintProperty(**taint) for taint in taints(instance)]
    return CfnCluster.ClusterKubernetesConfigProperty(labels={NODES_LABEL: name}, taints=found or None)
