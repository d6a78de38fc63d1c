"""The cluster, orchestrated by EKS: managed node groups behind EFA launch templates."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.delivery import Delivery
from stacks.constructs.hand_off import write_hand_off
from stacks.constructs.kubernetes import Kubernetes
from stacks.constructs.training_nodes import training_node_group
from stacks.foundation import Foundation


class EksStack(cdk.Stack):
    """Node groups, and everything in the cluster that a job needs."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation, control_plane: ControlPlane) -> None:
        platform, network = foundation.platform, foundation.network
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: EKS cluster")
        kubernetes = Kubernetes(self, "Kubernetes", foundation=foundation, control_plane=control_plane)
        for group in platform.node_groups:
            training_node_group(
                self,
                control_plane=control_plane,
                group=group,
                instance=foundation.catalogue[group.instance_type],
                subnet_id=network.subnet_of(group),
                security_group_ids=network.node_group_ids,
            )
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=foundation.storage.bucket,
            steps=[[kubernetes.charts]],
            after=[kubernetes.let_in],
        )
        arn = control_plane.cluster.attr_arn
        write_hand_off(self, foundation, cluster_arn=arn, namespaces=kubernetes.namespaces)
