"""The cluster, orchestrated by EKS: managed node groups behind EFA launch templates."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from stacks.cluster import Foundation
from stacks.constructs.cluster_stage import cluster_stage
from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.delivery import Delivery
from stacks.constructs.hand_off import write_hand_off
from stacks.constructs.job_role import job_role
from stacks.constructs.training_nodes import training_node_group
from stacks.manifests.namespace import namespaces
from trainway.spec import handoff


class EksStack(cdk.Stack):
    """Control plane, node groups, and everything in the cluster that a job needs."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, network, storage, image = (
            foundation.platform,
            foundation.network,
            foundation.storage,
            foundation.image,
        )
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: EKS cluster")
        control_plane = ControlPlane(
            self,
            "ControlPlane",
            name=platform.name,
            kubernetes=platform.kubernetes_or_default,
            subnet_ids=network.cluster_subnet_ids,
        )
        teams = namespaces(platform)
        job_role(self, "Job", bucket=storage.bucket, control_plane=control_plane, namespaces=teams)
        for group in platform.node_groups:
            training_node_group(
                self,
                control_plane=control_plane,
                group=group,
                instance=foundation.catalogue[group.instance_type],
                subnet_id=network.subnet_of(group),
                efa_group_id=network.efa_group_id,
            )
        charts = cluster_stage(self, control_plane=control_plane, storage=storage, image=image, wait_for_pods=True)
        Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-delivery",
            bundle=foundation.bundle,
            bucket=storage.bucket,
            steps=[[image.build, *([image.mirror] if image.mirror else [])], [charts]],
            after=control_plane.ready,
        )
        cluster = handoff.Cluster(name=control_plane.name, arn=control_plane.cluster.attr_arn, namespaces=teams)
        write_hand_off(self, platform=platform, storage=storage, image=image, cluster=cluster)
