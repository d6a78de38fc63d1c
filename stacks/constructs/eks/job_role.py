"""The IAM role of training pods."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.permissions import grant
from stacks.constructs.iam.secret_permissions import secret_permissions
from stacks.constructs.iam.trust import pods
from stacks.constructs.storage.data_permissions import data_permissions
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.spec.platform import Platform


def job_role(
    scope: Construct,
    id: str,
    *,
    platform: Platform,
    bucket: s3.IBucket,
    control_plane: ControlPlane,
    namespaces: tuple[str, ...],
) -> iam.Role:
    """Return a role for the jobs' service account in every namespace."""
    jobs = pods(cluster_arn=control_plane.cluster.attr_arn, service_account=SERVICE_ACCOUNT, namespaces=namespaces)
    role = iam.Role(scope, id, assumed_by=jobs)
    grant(role, *data_permissions(bucket), *secret_permissions(platform, by_team=True))
    for namespace in namespaces:
        control_plane.pod_identity(
            scope,
            f"{id}In{namespace.title().replace('-', '')}",
            namespace=namespace,
            service_account=SERVICE_ACCOUNT,
            role=role,
        )
    return role
