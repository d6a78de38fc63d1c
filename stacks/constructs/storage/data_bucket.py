"""The data bucket, which outlives the platform."""

from __future__ import annotations

from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.iam.acknowledge import acknowledge
from trainway.spec.platform import Platform
from trainway.spec.storage.buckets import ACCESS_LOGS, DATA, bucket_identity


class DataBucket(Construct):
    """Corpora, checkpoints, and deliveries, each below its own prefix. The bucket is kept when the stack is deleted.

    Both buckets have fixed names, by which the next deploy imports them into its stack. CloudFormation imports a
    resource that has a literal name and is to be retained, and only if `account`, the account number, is known when the
    template is made. https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/import-resources-automatically.html
    (read 2026-11-21)
    """

    def __init__(self, scope: Construct, id: str, *, platform: Platform, account: str | None) -> None:
        super().__init__(scope, id)
        kept = platform.storage.bucket
        access_logs = _bucket(
            self,
            "AccessLogs",
            ACCESS_LOGS,
            platform=platform,
            account=account,
            # S3 cannot deliver access logs to a bucket that a KMS key encrypts.
            # https://docs.aws.amazon.com/AmazonS3/latest/userguide/enable-server-access-logging.html (read 2026-11-24)
            **_encryption(self, None),
            lifecycle_rules=[
                s3.LifecycleRule(
                    expiration=cdk.Duration.days(kept.access_logs_days),
                    # Deleted and overwritten logs are kept for as long as other data.
                    noncurrent_version_expiration=cdk.Duration.days(kept.old_versions_days),
                )
            ],
        )
        acknowledge(
            access_logs, "It is where access logs go; logging its own access would never end.", "AwsSolutions-S1"
        )
        self.bucket = _bucket(
            self,
            "Bucket",
            DATA,
            platform=platform,
            account=account,
            server_access_logs_bucket=access_logs,
            **_encryption(self, kept.key),
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
                    noncurrent_version_expiration=cdk.Duration.days(kept.old_versions_days),
                    expired_object_delete_marker=True,
                ),
                # If two rules expire a version, the earlier one applies.
                # https://docs.aws.amazon.com/AmazonS3/latest/userguide/lifecycle-conflicts.html (read 2026-11-21)
                s3.LifecycleRule(
                    prefix="checkpoints/",
                    noncurrent_version_expiration=cdk.Duration.days(
                        min(kept.old_checkpoints_days, kept.old_versions_days)
                    ),
                ),
            ],
        )


def _encryption(scope: Construct, key: str | None) -> dict[str, Any]:
    """Return the properties of a bucket that encrypts new objects by the KMS key `key`, or by a key of S3's own.

    With a bucket key, S3 calls KMS for the bucket and not for each object.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucket-key.html (read 2026-11-24)
    """
    if key is None:
        return {"encryption": s3.BucketEncryption.S3_MANAGED}
    return {
        "encryption": s3.BucketEncryption.KMS,
        "encryption_key": kms.Key.from_key_arn(scope, "Key", key),
        "bucket_key_enabled": True,
    }


def _bucket(
    scope: Construct, id: str, role: str, *, platform: Platform, account: str | None, **settings: Any
) -> s3.Bucket:
    """Create a bucket with the settings of both: named, private, encrypted, TLS only, versioned, and retained."""
    identity = bucket_identity(platform, role, account or cdk.Aws.ACCOUNT_ID)
    bucket = s3.Bucket(
        scope,
        id,
        bucket_name=identity.name,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        versioned=True,
        removal_policy=cdk.RemovalPolicy.RETAIN,
        **settings,
    )
    if identity.in_account_namespace:
        # The CDK supports the namespace only with generated names, which cannot be imported.
        cast(s3.CfnBucket, bucket.node.default_child).bucket_namespace = "account-regional"
    return bucket
