"""Permissions of jobs for the data bucket."""

from __future__ import annotations

from aws_cdk import aws_s3 as s3

from stacks.constructs.iam.permissions import Permission
from trainway.spec.sections.storage import MIRRORED_PREFIXES


def data_permissions(bucket: s3.IBucket) -> list[Permission]:
    """Return a job's permissions for the data bucket: everything below the prefixes it shares with the file system."""
    return [
        Permission(("s3:ListBucket", "s3:GetBucketLocation"), (bucket.bucket_arn,)),
        Permission(
            ("s3:AbortMultipartUpload", "s3:DeleteObject", "s3:GetObject", "s3:PutObject"),
            tuple(bucket.arn_for_objects(f"{prefix}/*") for prefix in MIRRORED_PREFIXES),
            because="A job names its own corpora and checkpoints, below these prefixes only.",
        ),
    ]
