"""Log groups that are read only through CloudWatch Logs. Those of a stack share one KMS key."""

from __future__ import annotations

from typing import cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, regional_arn
from stacks.constructs.retention import goes_with_its_stack

KEY_ID = "LogKey"
# The actions behind the wildcards of the key policy in
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/encrypt-log-data-kms.html (read 2026-11-21)
ENCRYPT_LOGS = (
    "kms:Decrypt",
    "kms:DescribeKey",
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
)
# https://docs.aws.amazon.com/aws-managed-policy/latest/reference/CloudWatchLogsAPIKeyAccess.html (read 2026-11-21)
WRITE_LOGS = ("kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKey")


def log_group(scope: Construct, id: str, *, retention: logs.RetentionDays) -> logs.LogGroup:
    """Return an encrypted log group that is deleted with its stack. Roles that write to it also need `use_log_key`."""
    group = logs.LogGroup(scope, id, retention=retention, encryption_key=_key(cdk.Stack.of(scope)))
    goes_with_its_stack(group)
    return group


def use_log_key(scope: Construct) -> Permission:
    """Return the permission to write to the stack's log groups, with which CloudWatch Logs encrypts for the role."""
    stack = cdk.Stack.of(scope)
    through_logs = {"StringEquals": {"kms:ViaService": _service(stack)}}
    return Permission(WRITE_LOGS, (_key(stack).key_arn,), conditions=through_logs)


def _key(stack: cdk.Stack) -> kms.Key:
    """Return the stack's key, which is created with its first log group."""
    if made := stack.node.try_find_child(KEY_ID):
        return cast(kms.Key, made)
    key = kms.Key(
        stack,
        KEY_ID,
        description=f"Log groups of {stack.stack_name}",
        enable_key_rotation=True,
    )
    # The key encrypts only the log groups, which are deleted first.
    goes_with_its_stack(key)
    key.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal(_service(stack))],
            actions=list(ENCRYPT_LOGS),
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": regional_arn("logs", "log-group:*")}},
        )
    )
    return key


def _service(stack: cdk.Stack) -> str:
    return f"logs.{stack.region}.{stack.url_suffix}"
