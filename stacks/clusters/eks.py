"""The cluster with the orchestrator EKS: managed node groups with EFA launch templates."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
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
from trainway.spec.capacity.autoscaling import scaled_groups
from trainway.spec.capacity.capacity_times import capacity_times
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform
from trainway.spec.storage.lustre_clients import efa_interfaces


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
        node_groups = _node_groups(self, foundation, control_plane, subnets)
        _capacity_schedules(self, platform, control_plane, node_groups)
        autoscaler = _cluster_autoscaler(self, foundation, control_plane)
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=foundation.storage.bucket,
            steps=[[kubernetes.charts]],
            # A pod that starts before its role is associated never gets the role.
            after=[kubernetes.let_in, *([autoscaler] if autoscaler else [])],
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
        write_hand_off(
            self,
            foundation,
            subnets,
            cluster_arn=control_plane.cluster.arn,
            people=kubernetes.people,
        )


def _node_groups(
    scope: Construct, foundation: Foundation, control_plane: ControlPlane, subnets: NodeSubnets
) -> dict[str, eks.CfnNodegroup]:
    """Return the EKS node groups of a platform by name, each after its subnet."""
    platform, catalogue = foundation.platform, foundation.catalogue
    over_efa = efa_interfaces(platform, catalogue)
    node_groups = {
        group.name: training_node_group(
            scope,
            control_plane=control_plane,
            catalogue=catalogue,
            group=group,
            subnet_id=subnets.id_of(group),
            security_group_ids=foundation.network.node_group_ids,
            scripts=[lustre_over_efa(over_efa[group.name], platform_name=platform.name, region=platform.region)]
            if group.name in over_efa
            else [],
        )
        for group in platform.node_groups
    }
    for group in platform.node_groups:
        subnets.before(node_groups[group.name], group)
    return node_groups


def _capacity_schedules(
    scope: Construct, platform: Platform, control_plane: ControlPlane, node_groups: Mapping[str, eks.CfnNodegroup]
) -> None:
    """Schedule the nodes of each group whose Capacity Block has times."""
    timed = tuple(group for group in platform.node_groups if capacity_times(group))
    if timed:
        CapacitySchedules(
            scope,
            "Capacity",
            platform=platform.name,
            cluster=control_plane.cluster,
            node_groups={group.name: node_groups[group.name] for group in timed},
            groups=timed,
        )


def _cluster_autoscaler(
    scope: Construct, foundation: Foundation, control_plane: ControlPlane
) -> eks.CfnPodIdentityAssociation | None:
    """Give the Cluster Autoscaler its role. None for a platform whose node groups all have a fixed size."""
    if not scaled_groups(foundation.platform, foundation.catalogue):
        return None
    role = cluster_autoscaler_role(scope, "ClusterAutoscalerRole", control_plane=control_plane)
    return control_plane.pod_identity(
        scope, "ClusterAutoscaler", namespace=NAMESPACE, service_account=ACCOUNT, role=role
    )
