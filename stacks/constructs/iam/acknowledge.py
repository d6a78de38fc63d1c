"""Accept security findings, always with a reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, reason: str, *findings: str) -> None:
    """Accept cdk-nag findings such as `AwsSolutions-IAM5[Resource::*]` on a construct and everything below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=f"AwsSolutions::{finding}", reason=reason) for finding in findings)
    )


def acknowledge_managed_policies(role: IConstruct, reason: str, *policies: str) -> None:
    """Accept cdk-nag's finding about a role's AWS managed policies."""
    found = (f"AwsSolutions-IAM4[Policy::arn:<AWS::Partition>:iam::aws:policy/{policy}]" for policy in policies)
    acknowledge(role, reason, *found)
