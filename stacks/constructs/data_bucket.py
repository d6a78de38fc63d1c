"""The bucket that outlives the platform."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.acknowledge import acknowledge


class DataBucket(Construct):
    """Corpora, checkpoints and what the deploy delivers, each below its own prefix; kept when the stack goes."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id)
        access_logs = s3.Bucket(
            self,
            "AccessLogs",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            # A log that somebody deletes or overwrites is kept for another month.
            versioned=True,
            lifecycle_rules=[
                s3.LifecycleRule(expiration=cdk.Duration.days(90), noncurrent_version_expiration=cdk.Duration.days(30))
            ],
            removal_policy=cdk.RemovalPolicy.RETAIN,
        )
        acknowledge(
            access_logs, "It is where access logs go; logging its own access would never end.", "AwsSolutions-S1"
        )
        self.bucket = s3.Bucket(
            self,
            "Bucket",
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            encryption=s3.BucketEncryption.S3_MANAGED,
            enforce_ssl=True,
            versioned=True,
            server_access_logs_bucket=access_logs,
            removal_policy=cdk.RemovalPolicy.RETAIN,
            lifecycle_rules=[
                s3.LifecycleRule(
                    abort_incomplete_multipart_upload_after=cdk.Duration.days(7),
                    noncurrent_version_expiration=cdk.Duration.days(30),
                )
            ],
        )
