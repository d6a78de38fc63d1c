"""The IAM role of training pods."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.control_plane import ControlPlane
from stacks.constructs.permissions import Permission, grant
from stacks.constructs.trust import pods
from trainway.manifests.namespace import SERVICE_ACCOUNT
from trainway.spec.sections.storage import MIRRORED_PREFIXES


def data_permissions(bucket: s3.IBucket) -> list[Permission]:
    """What a job may do with the data bucket: everything below the prefixes it shares with the file system."""
    return [
        Permission(("s3:ListBucket", "s3:GetBucketLocation"), (bucket.bucket_arn,)),
        Permission(
            ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
            tuple(bucket.arn_for_objects(f"{prefix}/*") for prefix in MIRRORED_PREFIXES),
            because="A job names its own corpora and checkpoints, below these prefixes only.",
        ),
    ]


def job_role(
    scope: Construct, id: str, *, bucket: s3.IBucket, control_plane: ControlPlane, namespaces: tuple[str, ...]
) -> iam.Role:
    """A role for the jobs' service account in every namespace."""
    jobs = pods(cluster_arn=control_plane.cluster.attr_arn, service_account=SERVICE_ACCOUNT, namespaces=namespaces)
    role = iam.Role(scope, id, assumed_by=jobs)
    grant(role, *data_permissions(bucket))
    for namespace in namespaces:
        control_plane.pod_identity(
            scope,
            f"{id}In{namespace.title().replace('-', '')}",
            namespace=namespace,
            service_account=SERVICE_ACCOUNT,
            role=role,
        )
    return role
