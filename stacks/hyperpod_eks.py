"""The cluster, orchestrated by EKS on SageMaker HyperPod: HyperPod owns the nodes, and replaces the ones that break."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.cluster import Foundation
from stacks.constructs.cluster_stage import cluster_stage
from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.delivery import Delivery, needs_policies
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.hand_off import write_hand_off
from stacks.constructs.hyperpod import instance_group
from stacks.constructs.job_role import job_role
from stacks.constructs.scripts_stage import SCRIPTS_PREFIX, life_cycle_scripts, scripts_stage
from stacks.manifests.namespace import namespaces
from trainway.spec import handoff

Cluster = sagemaker.CfnCluster


class HyperPodEksStack(cdk.Stack):
    """Control plane, what HyperPod requires in it, and then the HyperPod cluster."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, network, storage, image = (
            foundation.platform,
            foundation.network,
            foundation.storage,
            foundation.image,
        )
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: HyperPod on EKS")
        control_plane = ControlPlane(
            self,
            "ControlPlane",
            name=platform.name,
            kubernetes=platform.kubernetes_or_default,
            subnet_ids=network.cluster_subnet_ids,
        )
        teams = namespaces(platform)
        job_role(self, "Job", bucket=storage.bucket, control_plane=control_plane, namespaces=teams)
        scripts = life_cycle_scripts(storage, foundation.bundle.scripts_content)
        charts = cluster_stage(self, control_plane=control_plane, storage=storage, image=image, wait_for_pods=True)
        uploads = scripts_stage(self, platform=platform, storage=storage, scripts=scripts)
        delivery = Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-delivery",
            bundle=foundation.bundle,
            bucket=storage.bucket,
            # The image takes longest and the cluster does not wait for it, so it is not in the charts' way.
            steps=[[uploads, *([image.mirror] if image.mirror else [])], [charts], [image.build]],
            after=control_plane.ready,
        )
        role = ExecutionRole(
            self,
            "ExecutionRole",
            bucket=storage.bucket,
            scripts_prefix=SCRIPTS_PREFIX,
            eks_cluster_arn=control_plane.cluster.attr_arn,
        )
        security_group_ids = [network.efa_group_id, control_plane.security_group_id]
        hyperpod = Cluster(
            self,
            "HyperPod",
            cluster_name=platform.name,
            orchestrator=Cluster.OrchestratorProperty(
                eks=Cluster.ClusterOrchestratorEksConfigProperty(cluster_arn=control_plane.cluster.attr_arn)
            ),
            node_recovery="Automatic",
            node_provisioning_mode="Continuous",
            vpc_config=Cluster.VpcConfigProperty(
                security_group_ids=security_group_ids, subnets=[network.subnet_of(platform.node_groups[0])]
            ),
            instance_groups=[
                instance_group(
                    name=group.name,
                    instance=foundation.catalogue[group.instance_type],
                    count=group.count,
                    role=role.role,
                    scripts=scripts,
                    subnet_id=network.subnet_of(group),
                    security_group_ids=security_group_ids,
                    root_volume_gib=group.root_volume_gib,
                    group=group,
                )
                for group in platform.node_groups
            ],
        )
        needs_policies(hyperpod, role.role)
        for stage in ("scripts", "cluster"):
            hyperpod.add_resource_dependency(delivery.stage_done[stage])
        cluster = handoff.Cluster(name=platform.name, arn=hyperpod.attr_cluster_arn, namespaces=teams)
        write_hand_off(self, platform=platform, storage=storage, image=image, cluster=cluster)
