"""The cluster with the orchestrator EKS on SageMaker HyperPod, which owns the nodes and replaces broken ones."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.clusters.autoscaling_stage import autoscaling_stage
from stacks.clusters.hand_off import write_hand_off
from stacks.clusters.kubernetes import KubernetesAccess
from stacks.clusters.node_subnets import NodeSubnets
from stacks.clusters.scripts_stage import SCRIPTS_PREFIX, life_cycle_scripts, scripts_stage
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.delivery.registry import user_image_permissions
from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.hyperpod.execution_role import ExecutionRole
from stacks.constructs.hyperpod.hyperpod_addons import hyperpod_addons
from stacks.constructs.hyperpod.hyperpod_patching import let_read_alarms
from stacks.constructs.hyperpod.hyperpod_volumes import let_encrypt_volumes
from stacks.constructs.hyperpod.instance_groups import (
    GroupSettings,
    LifeCycleScripts,
    autoscaler_role,
    instance_group,
    node_recovery,
)
from stacks.constructs.hyperpod.node_repairs import let_repair_nodes
from stacks.constructs.iam.permissions import grant, needs_policies
from stacks.foundation import Foundation

CfnCluster = sagemaker.CfnCluster


class HyperPodEksStack(cdk.Stack):
    """The prerequisites of HyperPod in the Kubernetes cluster, and then the HyperPod cluster.

    `alarms_topic` is the ARN of the topic that gets alarms on the metrics of HyperPod's observability add-on.
    """

    def __init__(
        self, scope: Construct, id: str, *, foundation: Foundation, control_plane: ControlPlane, alarms_topic: str
    ) -> None:
        platform, network, bucket = foundation.platform, foundation.network, foundation.storage.bucket
        settings, catalogue = platform.hyperpod_or_default, foundation.catalogue
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: HyperPod on EKS")
        kubernetes = KubernetesAccess(self, "Kubernetes", foundation=foundation, control_plane=control_plane)
        scripts = life_cycle_scripts(foundation)
        delivery = Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=bucket,
            steps=[[scripts_stage(self, foundation, scripts), kubernetes.charts]],
            after=[kubernetes.let_in],
        )
        execution = _execution_role(self, foundation, control_plane)
        autoscaler = autoscaler_role(self, "AutoscalerRole", settings) if settings.autoscaling else None
        subnets = NodeSubnets(self, "Network", platform=platform.name, network=network)
        hyperpod = _cluster(
            self, foundation, control_plane, scripts, subnets, execution=execution, autoscaler=autoscaler
        )
        subnets.before(hyperpod, *platform.node_groups)
        needs_policies(hyperpod, execution, *([autoscaler] if autoscaler else []))
        for stage in ("scripts", "cluster"):
            hyperpod.add_resource_dependency(delivery.stage_done[stage])
        if settings.autoscaling:
            _deliver_node_pools(self, foundation, control_plane, hyperpod)
        hyperpod_addons(
            self,
            control_plane=control_plane,
            platform=platform,
            catalogue=catalogue,
            hyperpod=hyperpod,
            alarms_topic=alarms_topic,
            people=kubernetes.people.values(),
        )
        let_repair_nodes(self, kubernetes.people, hyperpod)
        write_hand_off(
            self,
            foundation,
            subnets,
            cluster_arn=hyperpod.attr_cluster_arn,
            people=kubernetes.people,
        )


def _execution_role(scope: Construct, foundation: Foundation, control_plane: ControlPlane) -> iam.Role:
    """Create the role of the nodes, with the permissions that images, volumes, and updates require."""
    platform = foundation.platform
    role = ExecutionRole(
        scope,
        "ExecutionRole",
        bucket=foundation.storage.bucket,
        scripts_prefix=SCRIPTS_PREFIX,
        eks_cluster_arn=control_plane.cluster.arn,
        # Pods have roles of their own, and the node's role is that of no team.
        has_data=not platform.storage.bucket.team_prefixes,
    ).role
    grant(role, *user_image_permissions(platform))
    let_encrypt_volumes(role, platform.hyperpod_or_default)
    let_read_alarms(role, platform.hyperpod_or_default)
    return role


def _cluster(
    scope: Construct,
    foundation: Foundation,
    control_plane: ControlPlane,
    scripts: LifeCycleScripts,
    subnets: NodeSubnets,
    *,
    execution: iam.Role,
    autoscaler: iam.Role | None,
) -> CfnCluster:
    """Create the HyperPod cluster, with Karpenter if `autoscaler` is its role."""
    platform, network, settings = foundation.platform, foundation.network, foundation.platform.hyperpod_or_default
    shared = GroupSettings(
        catalogue=foundation.catalogue,
        hyperpod=settings,
        kubernetes=True,
        scripts=scripts,
        security_group_ids=[*network.node_group_ids, control_plane.cluster.security_group_id],
    )
    return CfnCluster(
        scope,
        "HyperPod",
        cluster_name=platform.name,
        orchestrator=CfnCluster.OrchestratorProperty(
            eks=CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=control_plane.cluster.arn)
        ),
        node_recovery=node_recovery(settings),
        auto_scaling=CfnCluster.ClusterAutoScalingConfigProperty(mode="Enable", auto_scaler_type="Karpenter")
        if autoscaler
        else None,
        cluster_role=autoscaler.role_arn if autoscaler else None,
        node_provisioning_mode="Continuous",
        # It can never change, so it does not depend on node groups. Each group has its own subnet instead.
        vpc_config=CfnCluster.VpcConfigProperty(
            security_group_ids=shared.security_group_ids, subnets=[network.cluster_subnet_ids[0]]
        ),
        instance_groups=[
            instance_group(group, shared, role=execution, subnet_id=subnets.id_of(group))
            for group in sorted(platform.node_groups, key=lambda group: group.name)
        ],
    )


def _deliver_node_pools(
    scope: Construct, foundation: Foundation, control_plane: ControlPlane, hyperpod: CfnCluster
) -> None:
    """Deliver Karpenter's node pools after the HyperPod cluster, by a pipeline of their own."""
    node_pools = autoscaling_stage(scope, foundation=foundation, control_plane=control_plane)
    let_in = control_plane.let_in(scope, "AutoscalingLetIn", node_pools.role.role_arn)
    Delivery(
        scope,
        "AutoscalingDelivery",
        name=f"{foundation.platform.name}-autoscaling",
        bundle=foundation.bundles.cluster,
        bucket=foundation.storage.bucket,
        steps=[[node_pools]],
        after=[let_in, hyperpod],
    )
