"""SageMaker HyperPod instance groups, for both of its orchestrators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.hyperpod.hyperpod_patching import patching
from stacks.constructs.hyperpod.hyperpod_volumes import let_autoscaler_encrypt_volumes, storage
from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from stacks.constructs.iam.trust import service
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import taints
from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.volumes import HEAD_VOLUME_GIB
from trainway.spec.facts.catalogue import Catalogue, Instance, InterfaceKind
from trainway.spec.hyperpod.health_checks import deep_health_checks
from trainway.spec.sections.capacity import TrainingPlan
from trainway.spec.sections.hyperpod import HyperPod
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.slurm import HeadNode

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


@dataclass(frozen=True)
class GroupSettings:
    """Settings that all instance groups of a cluster share. `mounts` are file systems of Slurm's nodes."""

    catalogue: Catalogue
    hyperpod: HyperPod
    kubernetes: bool
    scripts: LifeCycleScripts
    security_group_ids: list[str]
    mounts: Sequence[CfnCluster.ClusterInstanceStorageConfigProperty] = ()


def instance_group(
    group: NodeGroup, shared: GroupSettings, *, role: iam.IRole, subnet_id: str
) -> CfnCluster.ClusterInstanceGroupProperty:
    """Return the instance group of a node group of the platform file.

    If no node of the group's instance type is available, HyperPod uses the first available one of its other types.
    """
    settings, capacity = shared.hyperpod, group.capacity
    instance = shared.catalogue[group.instance_type]
    types = [str(each.hyperpod_name) for each in types_of(group, shared.catalogue)]
    checks = deep_health_checks(group, instance, settings, kubernetes=shared.kubernetes)
    return CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=group.name,
        instance_type=None if group.or_types else instance.hyperpod_name,
        instance_requirements=CfnCluster.InstanceRequirementsProperty(instance_types=types) if group.or_types else None,
        instance_count=group.count,
        min_instance_count=group.min_count or None,
        image_id=group.image_id,
        image_release_version=group.image_version,
        training_plan_arn=capacity.training_plan if isinstance(capacity, TrainingPlan) else None,
        capacity_requirements=CfnCluster.ClusterCapacityRequirementsProperty(spot={}) if capacity == "spot" else None,
        on_start_deep_health_checks=list(checks) or None,
        kubernetes_config=_kubernetes(group.name, instance) if shared.kubernetes else None,
        slurm_config=None
        if shared.kubernetes
        else CfnCluster.ClusterSlurmConfigProperty(node_type="Compute", partition_names=[group.name]),
        **_common(shared, instance, group.root_volume_gib, role=role, subnet_id=subnet_id),
        **patching(settings, group, kubernetes=shared.kubernetes),
    )


def head_group(
    name: str, node_type: str, head: HeadNode, shared: GroupSettings, *, role: iam.IRole, subnet_id: str
) -> CfnCluster.ClusterInstanceGroupProperty:
    """Return the instance group of a head node of Slurm. `node_type` is `Controller` or `Login`."""
    instance = shared.catalogue[head.instance_type]
    return CfnCluster.ClusterInstanceGroupProperty(
        instance_group_name=name,
        instance_type=instance.hyperpod_name,
        instance_count=1,
        slurm_config=CfnCluster.ClusterSlurmConfigProperty(node_type=node_type),
        **_common(shared, instance, HEAD_VOLUME_GIB, role=role, subnet_id=subnet_id),
        **patching(shared.hyperpod, None, kubernetes=False),
    )


def _common(
    shared: GroupSettings, instance: Instance, volume_gib: int, *, role: iam.IRole, subnet_id: str
) -> dict[str, Any]:
    """Return the instance group properties that all nodes have."""
    return {
        "execution_role": role.role_arn,
        "life_cycle_config": CfnCluster.ClusterLifeCycleConfigProperty(
            source_s3_uri=shared.scripts.source_s3_uri,
            on_create=shared.scripts.on_create if shared.kubernetes else None,
            on_init_complete=None if shared.kubernetes else shared.scripts.on_init_complete,
        ),
        "override_vpc_config": CfnCluster.VpcConfigProperty(
            security_group_ids=shared.security_group_ids, subnets=[subnet_id]
        ),
        "network_interface": _efa_only(instance),
        "instance_storage_configs": [*storage(volume_gib, shared.hyperpod.volume_key), *shared.mounts],
    }


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
