"""The cluster with the orchestrator EKS: managed node groups with EFA launch templates."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.clusters.hand_off import write_hand_off
from stacks.clusters.kubernetes import KubernetesAccess
from stacks.clusters.node_subnets import NodeSubnets
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.eks.capacity_schedules import CapacitySchedules
from stacks.constructs.eks.cluster_autoscaler import ACCOUNT, NAMESPACE, cluster_autoscaler_role
from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.eks.managed_collector import managed_collector
from stacks.constructs.eks.node_scripts import lustre_over_efa
from stacks.constructs.eks.training_nodes import training_node_group
from stacks.foundation import Foundation
from trainway.spec.derived.autoscaling import node_group_sizes, resource_tags, scaled_groups
from trainway.spec.derived.capacity_times import capacity_times
from trainway.spec.derived.collection import Collector, collector_of
from trainway.spec.derived.group_types import types_of
from trainway.spec.derived.lustre_clients import efa_interfaces
from trainway.spec.derived.node_tags import node_tags


class EksStack(cdk.Stack):
    """Node groups, everything in the cluster that a job needs, and the collector of metrics.

    `alarms_topic` is the ARN of the topic that gets alarms on the collected metrics.
    """

    def __init__(
        self, scope: Construct, id: str, *, foundation: Foundation, control_plane: ControlPlane, alarms_topic: str
    ) -> None:
        platform, network = foundation.platform, foundation.network
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: EKS cluster")
        kubernetes = KubernetesAccess(self, "Kubernetes", foundation=foundation, control_plane=control_plane)
        subnets = NodeSubnets(self, "Network", platform=platform.name, network=network)
        over_efa = efa_interfaces(platform, foundation.catalogue)
        node_groups = {
            group.name: training_node_group(
                self,
                control_plane=control_plane,
                group=group,
                sizes=node_group_sizes(platform, group, foundation.catalogue),
                tags=resource_tags(platform, group, foundation.catalogue),
                types=types_of(group, foundation.catalogue),
                subnet_id=subnets.id_of(group),
                security_group_ids=network.node_group_ids,
                scripts=[lustre_over_efa(over_efa[group.name], platform_name=platform.name, region=platform.region)]
                if group.name in over_efa
                else [],
                parallel_image_pull=platform.kubernetes_or_default.parallel_image_pull,
                node_repair=platform.kubernetes_or_default.node_repair,
                release=platform.lock.ami_releases.get(group.name),
                node_tags=node_tags(platform, group.name),
            )
            for group in platform.node_groups
        }
        for group in platform.node_groups:
            subnets.before(node_groups[group.name], group)
        timed = tuple(group for group in platform.node_groups if capacity_times(group))
        if timed:
            CapacitySchedules(
                self,
                "Capacity",
                platform=platform.name,
                cluster=control_plane.cluster,
                node_groups={group.name: node_groups[group.name] for group in timed},
                groups=timed,
            )
        before_charts: list[cdk.CfnResource] = [kubernetes.let_in]
        if scaled_groups(platform, foundation.catalogue):
            role = cluster_autoscaler_role(self, "ClusterAutoscalerRole", control_plane=control_plane)
            # A pod that starts before its role is associated never gets the role.
            before_charts.append(
                control_plane.pod_identity(
                    self, "ClusterAutoscaler", namespace=NAMESPACE, service_account=ACCOUNT, role=role
                )
            )
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=foundation.storage.bucket,
            steps=[[kubernetes.charts]],
            after=before_charts,
        )
        if collector_of(platform) is Collector.AWS_MANAGED:
            managed_collector(
                self,
                cluster=control_plane.cluster,
                platform=platform,
                catalogue=foundation.catalogue,
                subnet_ids=network.cluster_subnet_ids,
                alarms_topic=alarms_topic,
                people=kubernetes.people.values(),
            )
        arn = control_plane.cluster.arn
        write_hand_off(
            self,
            foundation,
            subnets,
            cluster_arn=arn,
            people=kubernetes.people,
        )
