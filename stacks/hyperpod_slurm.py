"""The cluster, orchestrated by Slurm on SageMaker HyperPod: a controller, a login node, and compute groups."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.delivery import Delivery
from stacks.constructs.execution_role import ExecutionRole
from stacks.constructs.hand_off import write_hand_off
from stacks.constructs.hyperpod import instance_group, node_recovery
from stacks.constructs.permissions import needs_policies
from stacks.constructs.scripts_stage import (
    CONTROLLER_GROUP,
    LOGIN_GROUP,
    SCRIPTS_PREFIX,
    life_cycle_scripts,
    scripts_stage,
)
from stacks.foundation import Foundation

Cluster = sagemaker.CfnCluster
HEAD_VOLUME_GIB = 500


class HyperPodSlurmStack(cdk.Stack):
    """Scripts first, then the HyperPod cluster, whose Slurm configuration the service manages."""

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation) -> None:
        platform, network, storage = foundation.platform, foundation.network, foundation.storage
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: HyperPod on Slurm")
        scripts = life_cycle_scripts(foundation)
        delivery = Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=storage.bucket,
            steps=[[scripts_stage(self, foundation, scripts)]],
        )
        execution = ExecutionRole(
            self, "ExecutionRole", bucket=storage.bucket, scripts_prefix=SCRIPTS_PREFIX, eks_cluster_arn=None
        )
        common: dict[str, Any] = {
            "role": execution.role,
            "settings": platform.hyperpod_or_default,
            "scripts": scripts,
            "security_group_ids": network.node_group_ids,
            "lustre": foundation.file_system.lustre.file_system,
        }
        head_subnet = network.cluster_subnet_ids[0]
        slurm = platform.slurm_or_default
        heads = {CONTROLLER_GROUP: ("Controller", slurm.controller)}
        if slurm.login:
            heads[LOGIN_GROUP] = ("Login", slurm.login)
        groups = [
            instance_group(
                name=name,
                instance=foundation.catalogue[head.instance_type],
                count=1,
                subnet_id=head_subnet,
                root_volume_gib=HEAD_VOLUME_GIB,
                slurm=Cluster.ClusterSlurmConfigProperty(node_type=node_type),
                **common,
            )
            for name, (node_type, head) in heads.items()
        ]
        groups += [
            instance_group(
                name=group.name,
                instance=foundation.catalogue[group.instance_type],
                count=group.count,
                subnet_id=network.subnet_of(group),
                root_volume_gib=group.root_volume_gib,
                group=group,
                slurm=Cluster.ClusterSlurmConfigProperty(node_type="Compute", partition_names=[group.name]),
                **common,
            )
            for group in platform.node_groups
        ]
        hyperpod = Cluster(
            self,
            "HyperPod",
            cluster_name=platform.name,
            orchestrator=Cluster.OrchestratorProperty(
                slurm=Cluster.ClusterOrchestratorSlurmConfigProperty(slurm_config_strategy="Managed")
            ),
            node_recovery=node_recovery(platform.hyperpod_or_default),
            vpc_config=Cluster.VpcConfigProperty(security_group_ids=network.node_group_ids, subnets=[head_subnet]),
            instance_groups=groups,
        )
        needs_policies(hyperpod, execution.role)
        hyperpod.add_resource_dependency(delivery.stage_done["scripts"])
        write_hand_off(self, foundation, cluster_arn=hyperpod.attr_cluster_arn)
