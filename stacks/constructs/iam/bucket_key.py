"""The permissions to use the KMS key of the data bucket, for every role that reads or writes objects in S3."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

READ, WRITE = "s3:GetObject", "s3:PutObject"


def let_use_bucket_key(scope: Construct, key: str) -> None:
    """Let each role below `scope` that reads or writes objects use the KMS key `key`, an ARN, through S3 only.

    A role that writes also decrypts, because S3 reads the parts of a multipart upload.

    https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html#mpuAndPermissions
    https://docs.aws.amazon.com/kms/latest/developerguide/conditions-kms.html#conditions-kms-via-service (both read
    2026-11-24)
    """
    for policy in scope.node.find_all():
        if not isinstance(policy, iam.Policy | iam.ManagedPolicy):
            continue
        actions = _actions(policy)
        if actions & {READ, WRITE}:
            policy.add_statements(
                iam.PolicyStatement(
                    actions=["kms:Decrypt", *(["kms:GenerateDataKey"] if WRITE in actions else [])],
                    resources=[key],
                    conditions={"StringEquals": {"kms:ViaService": f"s3.{cdk.Aws.REGION}.amazonaws.com"}},
                )
            )


def _actions(policy: iam.Policy | iam.ManagedPolicy) -> set[str]:
    """Return the actions that the statements of a policy allow."""
    found: set[str] = set()
    for statement in cdk.Stack.of(policy).resolve(policy.document).get("Statement", []):
        named = statement.get("Action", [])
        found |= {named} if isinstance(named, str) else set(named)
    return found
