"""The IAM roles of teams on a Slurm cluster, which the nodes assume for the members of each team."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.delivery.registry import LOG_IN, PULL, user_image_permissions
from stacks.constructs.iam.mlflow_permissions import mlflow_permissions
from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.iam.trust import nodes
from stacks.constructs.storage.data_permissions import data_permissions
from trainway.spec.platform import Platform
from trainway.spec.slurm.slurm_accounts import role_variable
from trainway.spec.teams.team_data import team_prefixes


def slurm_team_roles(
    scope: Construct, *, platform: Platform, bucket: s3.IBucket, of_nodes: Sequence[iam.Role]
) -> dict[str, str]:
    """Create a role per team, which nodes with a role of `of_nodes` assume. Empty if teams share all prefixes.

    Returns the ARNs of the roles, by the variables of the delivery that have them.
    """
    roles = {}
    for team, prefixes in team_prefixes(platform).items():
        role = iam.Role(
            scope,
            f"SlurmJobRoleOf{team.title().replace('-', '')}",
            assumed_by=nodes(*of_nodes),
            description=f"Slurm jobs of {platform.name} for {team}",
        )
        grant(
            role,
            *data_permissions(bucket, prefixes),
            LOG_IN,
            Permission(PULL, (regional_arn("ecr", "repository/*"),), because="Jobs bring images of their own."),
            *user_image_permissions(platform),
            *secret_permissions(platform, of_team=team),
            *mlflow_permissions(platform),
        )
        roles[team] = role
    for node in of_nodes if roles else ():
        grant(node, Permission(("sts:AssumeRole",), tuple(role.role_arn for role in roles.values())))
    return {role_variable(team): role.role_arn for team, role in roles.items()}
