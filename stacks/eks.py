"""The cluster, orchestrated by EKS: managed node groups behind EFA launch templates."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.constructs.delivery import Delivery
from stacks.constructs.hand_off import write_hand_off
from stacks.constructs.kubernetes import Kubernetes
from stacks.constructs.training_nodes import training_node_group
from stacks.foundation import Foundation


class EksStack(cdk.Stack):
    """Control plane, node groups, and everything in the cluster that a job needs."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, network = foundation.platform, foundation.network
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: EKS cluster")
        kubernetes = Kubernetes(self, "Kubernetes", foundation=foundation)
        for group in platform.node_groups:
            training_node_group(
                self,
                control_plane=kubernetes.control_plane,
                group=group,
                instance=foundation.catalogue[group.instance_type],
                subnet_id=network.subnet_of(group),
                security_group_ids=network.node_group_ids,
            )
        Delivery(
            self,
            "Delivery",
            foundation=foundation,
            steps=[[foundation.image.build, *foundation.image.mirror], [kubernetes.charts]],
            after=kubernetes.control_plane.ready,
        )
        write_hand_off(
            self,
            foundation,
            cluster_arn=kubernetes.control_plane.cluster.attr_arn,
            namespaces=kubernetes.namespaces,
        )
