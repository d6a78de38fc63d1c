"""The role and the network of SageMaker training jobs, which run outside the cluster."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.clusters.node_subnets import NodeSubnets
from stacks.constructs.delivery.registry import LOG_IN, PULL, user_image_permissions
from stacks.constructs.hyperpod.execution_role import LOGS, NETWORK_INTERFACES, SHELL
from stacks.constructs.iam.mlflow_permissions import mlflow_permissions
from stacks.constructs.iam.permissions import LOOK_AT_NETWORK, Permission, grant, regional_arn
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.iam.trust import training_jobs as training_jobs_of_this_account
from stacks.constructs.storage.data_permissions import data_permissions
from stacks.foundation import Foundation
from trainway.spec import handoff
from trainway.spec.derived.team_data import TeamPrefixes, team_prefixes

# The log group of training jobs, and the namespace of the metrics that SageMaker derives from their logs:
# https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (read 2026-11-21)
TRAINING_JOBS = "/aws/sagemaker/TrainingJobs"


def training_jobs(scope: Construct, foundation: Foundation, subnets: NodeSubnets) -> handoff.TrainingJobs:
    """Create the role, and one per team with its own prefixes. Return them with the network of the nodes."""
    network, platform = foundation.network, foundation.platform
    of_teams = {
        team: _role(scope, f"TrainingJobRoleOf{team.title().replace('-', '')}", foundation, f" for {team}", prefixes)
        for team, prefixes in team_prefixes(platform).items()
    }
    return handoff.TrainingJobs(
        role_arn=_role(scope, "TrainingJobRole", foundation).role_arn,
        team_role_arns={team: role.role_arn for team, role in of_teams.items()},
        subnet_ids={group.name: subnets.id_of(group) for group in platform.node_groups},
        security_group_ids=tuple(network.node_group_ids),
    )


def _role(
    scope: Construct, id: str, foundation: Foundation, of_team: str = "", prefixes: TeamPrefixes | None = None
) -> iam.Role:
    role = iam.Role(
        scope,
        id,
        assumed_by=training_jobs_of_this_account(),
        description=f"SageMaker training jobs of {foundation.platform.name}{of_team}",
    )
    grant(role, *_permissions(foundation, prefixes))
    return role


def _permissions(foundation: Foundation, prefixes: TeamPrefixes | None) -> list[Permission]:
    """Return the permissions that a training job in a VPC needs, limited to its data, logs, and images.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createtrainingjob-perms
    https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html (read 2026-11-21)
    """
    log_group = regional_arn("logs", f"log-group:{TRAINING_JOBS}*")
    kinds = ("network-interface", "security-group", "subnet", "vpc")
    interfaces = tuple(regional_arn("ec2", f"{kind}/*") for kind in kinds)
    return [
        *data_permissions(foundation.storage.bucket, prefixes),
        Permission(LOGS, (log_group,), because="The streams of the group are named after jobs and their starts."),
        Permission(
            ("cloudwatch:PutMetricData",),
            ("*",),
            because="Metrics have no resource type; the namespace is fixed instead.",
            conditions={"StringEquals": {"cloudwatch:namespace": TRAINING_JOBS}},
        ),
        LOG_IN,
        Permission(PULL, (regional_arn("ecr", "repository/*"),), because="Jobs bring images of their own."),
        *user_image_permissions(foundation.platform),
        *secret_permissions(foundation.platform),
        *mlflow_permissions(foundation.platform),
        Permission(NETWORK_INTERFACES, interfaces, because="Network interfaces get their ids when a job starts."),
        Permission(LOOK_AT_NETWORK, ("*",), because="EC2's Describe has no resource type."),
        Permission(SHELL, ("*",), because="Session Manager's channels have no resource type."),
    ]
