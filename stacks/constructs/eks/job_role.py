"""The IAM roles of training pods."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.mlflow_permissions import mlflow_permissions
from stacks.constructs.iam.permissions import grant
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.iam.trust import pods
from stacks.constructs.storage.data_permissions import data_permissions
from trainway.manifests.namespace import SERVICE_ACCOUNT, namespace_of
from trainway.spec.platform import Platform
from trainway.spec.teams.team_data import TeamPrefixes, team_prefixes


def job_roles(
    scope: Construct,
    id: str,
    *,
    platform: Platform,
    bucket: s3.IBucket,
    control_plane: ControlPlane,
    namespaces: tuple[str, ...],
) -> None:
    """Create the role of the jobs' service account: one for all namespaces, or one per team with its own prefixes."""
    prefixes = team_prefixes(platform)
    if not prefixes:
        _job_role(scope, id, platform, bucket, control_plane, namespaces)
    for team in platform.teams if prefixes else ():
        namespace = namespace_of(platform, team)
        _job_role(scope, id, platform, bucket, control_plane, (namespace,), prefixes[team.name])


def _job_role(
    scope: Construct,
    id: str,
    platform: Platform,
    bucket: s3.IBucket,
    control_plane: ControlPlane,
    namespaces: tuple[str, ...],
    team: TeamPrefixes | None = None,
) -> None:
    jobs = pods(cluster_arn=control_plane.cluster.arn, service_account=SERVICE_ACCOUNT, namespaces=namespaces)
    role = iam.Role(scope, id if team is None else f"{id}Of{_identifier(namespaces[0])}", assumed_by=jobs)
    grant(
        role,
        *data_permissions(bucket, team),
        *secret_permissions(platform, by_team=True),
        *mlflow_permissions(platform),
    )
    for namespace in namespaces:
        control_plane.pod_identity(
            scope,
            f"{id}In{_identifier(namespace)}",
            namespace=namespace,
            service_account=SERVICE_ACCOUNT,
            role=role,
        )


def _identifier(namespace: str) -> str:
    return namespace.title().replace("-", "")
