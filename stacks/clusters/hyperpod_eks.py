"""The cluster with the orchestrator EKS on SageMaker HyperPod, which owns the nodes and replaces broken ones."""

from __future__ import annotations

import aws_cdk as cdk
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
        eks_arn = control_plane.cluster.arn
        execution = ExecutionRole(
            self,
            "ExecutionRole",
            bucket=bucket,
            scripts_prefix=SCRIPTS_PREFIX,
            eks_cluster_arn=eks_arn,
            # Pods have roles of their own, and the node's role is that of no team.
            has_data=not platform.storage.bucket.team_prefixes,
        )
        grant(execution.role, *user_image_permissions(foundation.platform))
        let_encrypt_volumes(execution.role, settings)
        let_read_alarms(execution.role, settings)
        autoscaler = autoscaler_role(self, "AutoscalerRole", settings) if settings.autoscaling else None
        security_group_ids = [*network.node_group_ids, control_plane.cluster.security_group_id]
        shared = GroupSettings(
            catalogue=catalogue,
            hyperpod=settings,
            kubernetes=True,
            scripts=scripts,
            security_group_ids=security_group_ids,
        )
        subnets = NodeSubnets(self, "Network", platform=platform.name, network=network)
        hyperpod = CfnCluster(
            self,
            "HyperPod",
            cluster_name=platform.name,
            orchestrator=CfnCluster.OrchestratorProperty(
                eks=CfnCluster.ClusterOrchestratorEksConfigProperty(cluster_arn=eks_arn)
            ),
            node_recovery=node_recovery(settings),
            auto_scaling=CfnCluster.ClusterAutoScalingConfigProperty(mode="Enable", auto_scaler_type="Karpenter")
            if autoscaler
            else None,
            cluster_role=autoscaler.role_arn if autoscaler else None,
            node_provisioning_mode="Continuous",
            # It can never change, so it does not depend on node groups. Each group has its own subnet instead.
            vpc_config=CfnCluster.VpcConfigProperty(
                security_group_ids=security_group_ids, subnets=[network.cluster_subnet_ids[0]]
            ),
            instance_groups=[
                instance_group(group, shared, role=execution.role, subnet_id=subnets.id_of(group))
                for group in sorted(platform.node_groups, key=lambda group: group.name)
            ],
        )
        subnets.before(hyperpod, *platform.node_groups)
        needs_policies(hyperpod, execution.role, *([autoscaler] if autoscaler else []))
        for stage in ("scripts", "cluster"):
            hyperpod.add_resource_dependency(delivery.stage_done[stage])
        if settings.autoscaling:
            node_pools = autoscaling_stage(self, foundation=foundation, control_plane=control_plane)
            let_in = control_plane.let_in(self, "AutoscalingLetIn", node_pools.role.role_arn)
            Delivery(
                self,
                "AutoscalingDelivery",
                name=f"{platform.name}-autoscaling",
                bundle=foundation.bundles.cluster,
                bucket=bucket,
                steps=[[node_pools]],
                after=[let_in, hyperpod],
            )
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
