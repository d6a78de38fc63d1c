"""The role and the network of SageMaker training jobs, which run outside the cluster."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.clusters.node_subnets import NodeSubnets
from stacks.constructs.delivery.registry import LOG_IN, PULL, user_image_permissions
from stacks.constructs.hyperpod.execution_role import LOGS, SHELL
from stacks.constructs.iam.mlflow_permissions import mlflow_permissions
from stacks.constructs.iam.permissions import LOOK_AT_NETWORK, Permission, grant, regional_arn
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.iam.trust import training_jobs as training_jobs_of_this_account
from stacks.constructs.storage.data_permissions import data_permissions
from stacks.foundation import Foundation
from trainway.spec import handoff
from trainway.spec.teams.team_data import TeamPrefixes, team_prefixes

# The log group of training jobs, and the namespace of the metrics that SageMaker derives from their logs:
# https://docs.aws.amazon.com/sagemaker/latest/dg/logging-cloudwatch.html
# https://docs.aws.amazon.com/sagemaker/latest/dg/monitoring-cloudwatch.html (read 2026-11-21)
TRAINING_JOBS = "/aws/sagemaker/TrainingJobs"


def training_jobs(scope: Construct, foundation: Foundation, subnets: NodeSubnets) -> handoff.TrainingJobs:
    """Create the role, and one per team with its own prefixes. Return them with the network of the nodes."""
    platform = foundation.platform
    subnet_ids = {group.name: subnets.id_of(group) for group in platform.node_groups}
    group_ids = tuple(foundation.network.node_group_ids)

    def role(id: str, of_team: str = "", prefixes: TeamPrefixes | None = None) -> str:
        made = iam.Role(
            scope,
            id,
            assumed_by=training_jobs_of_this_account(),
            description=f"SageMaker training jobs of {platform.name}{of_team}",
        )
        inside = _network_interfaces(list(dict.fromkeys(subnet_ids.values())), group_ids)
        grant(made, *_permissions(foundation, prefixes), *inside)
        return made.role_arn

    of_teams = {
        team: role(f"TrainingJobRoleOf{team.title().replace('-', '')}", f" for {team}", prefixes)
        for team, prefixes in team_prefixes(platform).items()
    }
    return handoff.TrainingJobs(
        role_arn=role("TrainingJobRole"), team_role_arns=of_teams, subnet_ids=subnet_ids, security_group_ids=group_ids
    )


def _permissions(foundation: Foundation, prefixes: TeamPrefixes | None) -> list[Permission]:
    """Return the permissions that every training job needs, limited to its data, logs, and images.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createtrainingjob-perms
    https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html (read 2026-11-21)
    """
    log_group = regional_arn("logs", f"log-group:{TRAINING_JOBS}*")
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
        Permission(SHELL, ("*",), because="Session Manager's channels have no resource type."),
    ]


def _network_interfaces(subnet_ids: Sequence[str], group_ids: Sequence[str]) -> list[Permission]:
    """Return the permissions with which SageMaker creates network interfaces for a training job in the nodes' subnets.

    The job's code has the same role. Without these limits, it could create interfaces in any subnet of the account, in
    any security group, and delete those of other services. `ec2:AuthorizedService` is no condition here, because the
    documented policy has none, and EC2 takes only an account to which a permission is given.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-roles.html#sagemaker-roles-createtrainingjob-perms
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateNetworkInterfacePermission.html
    https://github.com/awslabs/mlspace/blob/main/lib/constructs/iamConstruct.ts, by which AWS's own product names the
    subnets and the security group of its training jobs (all read 2026-11-29)
    """
    later = "Network interfaces get their ids when a job starts."
    interfaces = regional_arn("ec2", "network-interface/*")
    subnets = [regional_arn("ec2", f"subnet/{each}") for each in subnet_ids]
    groups = [regional_arn("ec2", f"security-group/{each}") for each in group_ids]
    existing = (
        "ec2:CreateNetworkInterfacePermission",
        "ec2:DeleteNetworkInterface",
        "ec2:DeleteNetworkInterfacePermission",
    )
    return [
        Permission(("ec2:CreateNetworkInterface",), (interfaces, *subnets, *groups), because=later),
        Permission(existing, (interfaces,), because=later, conditions={"ArnEquals": {"ec2:Subnet": subnets}}),
        Permission(LOOK_AT_NETWORK, ("*",), because="EC2's Describe has no resource type."),
    ]
