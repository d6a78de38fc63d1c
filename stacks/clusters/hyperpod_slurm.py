"""The cluster with the orchestrator Slurm on SageMaker HyperPod: a controller, a login node, and compute groups."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.clusters.hand_off import write_hand_off
from stacks.clusters.node_subnets import NodeSubnets
from stacks.clusters.scripts_stage import SCRIPTS_PREFIX, life_cycle_scripts, scripts_stage
from stacks.constructs.delivery.pipeline import Delivery
from stacks.constructs.delivery.registry import user_image_permissions
from stacks.constructs.hyperpod.execution_role import ExecutionRole
from stacks.constructs.hyperpod.hyperpod_volumes import let_encrypt_volumes, mounts
from stacks.constructs.hyperpod.instance_groups import (
    GroupSettings,
    LifeCycleScripts,
    head_group,
    instance_group,
    node_recovery,
)
from stacks.constructs.hyperpod.slurm_metrics import slurm_metrics
from stacks.constructs.hyperpod.slurm_team_roles import slurm_team_roles
from stacks.constructs.iam.mlflow_permissions import mlflow_permissions
from stacks.constructs.iam.permissions import Permission, grant, needs_policies
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.monitoring.log_alarm import LogAlarm
from stacks.constructs.monitoring.metrics_workspace import workspace_endpoint
from stacks.foundation import Foundation
from trainway.monitoring.rules import log_alarms
from trainway.monitoring.slurm_scraping import METRICS_ENDPOINT
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.sections.slurm import CONTROLLER_GROUP, LOGIN_GROUP, AccountingDatabase, Slurm

CfnCluster = sagemaker.CfnCluster


class HyperPodSlurmStack(cdk.Stack):
    """Lifecycle scripts, and then a HyperPod cluster with Slurm, whose nodes the service provisions continuously.

    In slurm.conf, the service then changes only partitions and nodes, and keeps the platform's settings.
    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-slurm.html (read 2026-11-21)
    """

    def __init__(self, scope: Construct, id: str, *, foundation: Foundation, alarms_topic: str) -> None:
        platform, network, storage = foundation.platform, foundation.network, foundation.storage
        super().__init__(scope, id, env=foundation.env, description=f"Trainway {platform.name}: HyperPod on Slurm")
        slurm = platform.slurm_or_default
        execution = self._role("ExecutionRole", foundation)
        controller = self._controller_role(foundation, slurm.accounting_database) or execution
        placeholders = {}
        if collector_of(platform) is Collector.AGENT:
            workspace = slurm_metrics(
                self,
                platform=platform,
                catalogue=foundation.catalogue,
                alarms_topic=alarms_topic,
                controller=controller,
            )
            placeholders[METRICS_ENDPOINT.strip("${}")] = workspace_endpoint(workspace)
        of_nodes = list(dict.fromkeys((execution, controller)))
        roles = slurm_team_roles(self, platform=platform, bucket=storage.bucket, of_nodes=of_nodes)
        scripts = life_cycle_scripts(foundation)
        delivery = Delivery(
            self,
            "Delivery",
            name=f"{platform.name}-cluster",
            bundle=foundation.bundles.cluster,
            bucket=storage.bucket,
            steps=[[scripts_stage(self, foundation, scripts, {**roles, **placeholders})]],
        )
        subnets = NodeSubnets(self, "Network", platform=platform.name, network=network)
        hyperpod = CfnCluster(
            self,
            "HyperPod",
            cluster_name=platform.name,
            orchestrator=_orchestrator(slurm),
            node_provisioning_mode="Continuous",
            node_recovery=node_recovery(platform.hyperpod_or_default),
            vpc_config=CfnCluster.VpcConfigProperty(
                security_group_ids=network.node_group_ids, subnets=[network.cluster_subnet_ids[0]]
            ),
            instance_groups=_instance_groups(foundation, scripts, subnets, execution=execution, controller=controller),
        )
        subnets.before(hyperpod, *platform.node_groups)
        needs_policies(hyperpod, *of_nodes)
        hyperpod.add_resource_dependency(delivery.stage_done["scripts"])
        write_hand_off(self, foundation, subnets, cluster_arn=hyperpod.attr_cluster_arn)
        for alarm in log_alarms(platform, foundation.catalogue):
            # HyperPod makes the log group, whose name ends with the ID of the cluster.
            cluster_id = cdk.Fn.select(1, cdk.Fn.split("/", hyperpod.attr_cluster_arn))
            log_group = f"/aws/sagemaker/Clusters/{platform.name}/{cluster_id}"
            LogAlarm(self, alarm, log_group=log_group, topic=alarms_topic)

    def _controller_role(self, foundation: Foundation, database: AccountingDatabase | None) -> iam.Role | None:
        """Return the role of a controller with an accounting database. None: it has the role of the other nodes."""
        if database is None:
            return None
        # Everybody on a node has the rights of its role, and nobody runs jobs on the controller.
        role = self._role("ControllerRole", foundation)
        grant(role, Permission(("secretsmanager:GetSecretValue",), (database.secret,)))
        return role

    def _role(self, id: str, foundation: Foundation) -> iam.Role:
        """Return the role of a group's nodes, with access to the key of their volumes if there is one."""
        bucket, settings = foundation.storage.bucket, foundation.platform.hyperpod_or_default
        # With prefixes of teams, a job has the role of its team.
        has_data = not foundation.platform.storage.bucket.team_prefixes
        role = ExecutionRole(
            self, id, bucket=bucket, scripts_prefix=SCRIPTS_PREFIX, eks_cluster_arn=None, has_data=has_data
        ).role
        grant(role, *user_image_permissions(foundation.platform))
        if id == "ExecutionRole" and has_data:
            grant(role, *secret_permissions(foundation.platform), *mlflow_permissions(foundation.platform))
        let_encrypt_volumes(role, settings)
        directory = foundation.platform.slurm_or_default.directory
        if directory and directory.reader:
            grant(role, Permission(("secretsmanager:GetSecretValue",), (directory.reader.secret,)))
        return role


def _instance_groups(
    foundation: Foundation,
    scripts: LifeCycleScripts,
    subnets: NodeSubnets,
    *,
    execution: iam.Role,
    controller: iam.Role,
) -> list[CfnCluster.ClusterInstanceGroupProperty]:
    """Return the instance groups of the head nodes, and those of the node groups in the order of their names."""
    platform, network = foundation.platform, foundation.network
    slurm, head_subnet = platform.slurm_or_default, network.cluster_subnet_ids[0]
    shared = GroupSettings(
        catalogue=foundation.catalogue,
        hyperpod=platform.hyperpod_or_default,
        kubernetes=False,
        scripts=scripts,
        security_group_ids=network.node_group_ids,
        mounts=mounts(foundation.file_system.of_jobs, foundation.file_system.home),
    )
    groups = [
        head_group(CONTROLLER_GROUP, "Controller", slurm.controller, shared, role=controller, subnet_id=head_subnet)
    ]
    if slurm.login:
        groups.append(head_group(LOGIN_GROUP, "Login", slurm.login, shared, role=execution, subnet_id=head_subnet))
    groups += [
        instance_group(group, shared, role=execution, subnet_id=subnets.id_of(group))
        for group in sorted(platform.node_groups, key=lambda group: group.name)
    ]
    return groups


def _orchestrator(slurm: Slurm) -> CfnCluster.OrchestratorProperty:
    """Return Slurm as the orchestrator, and its accounting database.

    HyperPod refuses a strategy for slurm.conf with continuous provisioning.
    """
    database = slurm.accounting_database
    return CfnCluster.OrchestratorProperty(
        slurm=CfnCluster.ClusterOrchestratorSlurmConfigProperty(
            accounting_database=CfnCluster.ClusterAccountingDatabaseProperty(
                endpoint=database.endpoint, port=database.port, name=database.name, secret_arn=database.secret
            )
            if database
            else None
        )
    )
