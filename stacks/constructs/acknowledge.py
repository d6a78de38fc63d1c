"""Accepting a security finding, never without its reason."""

from __future__ import annotations

import aws_cdk as cdk
from constructs import IConstruct


def acknowledge(construct: IConstruct, reason: str, *findings: str) -> None:
    """Accepts cdk-nag findings such as `AwsSolutions-IAM5[Resource::*]` on a construct and all below it."""
    cdk.Validations.of(construct).acknowledge(
        *(cdk.Acknowledgment(id=f"AwsSolutions::{finding}", reason=reason) for finding in findings)
    )
