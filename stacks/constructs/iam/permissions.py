"""Permissions of roles. Every wildcard states its reason where it is granted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.iam.acknowledge import acknowledge

# CDK's marker, inside a string, for a value that only the deploy knows.
TOKEN = re.compile(r"\$\{Token\[[^\]]+\]\}")

# Operations that a service calls before it creates a network interface in a VPC.
LOOK_AT_NETWORK = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


@dataclass(frozen=True)
class Permission:
    """An IAM statement. `because` states why a resource has a wildcard, and is required for wildcards."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    because: str | None = None
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if any("*" in action for action in self.actions):
            raise ValueError(f"{self.actions}: name every action")
        if any("*" in resource for resource in self.resources) and not self.because:
            raise ValueError(f"{self.resources}: a wildcard needs its reason")


def grant(role: iam.Role, *permissions: Permission) -> None:
    """Add the permissions to the role's own policy, and accept cdk-nag's finding for each wildcard with a reason."""
    for permission in permissions:
        role.add_to_policy(
            iam.PolicyStatement(
                actions=list(permission.actions),
                resources=list(permission.resources),
                conditions=dict(permission.conditions) or None,
            )
        )
        for resource in permission.resources:
            if permission.because and "*" in resource:
                acknowledge(role, permission.because, f"AwsSolutions-IAM5[Resource::{_as_reported(role, resource)}]")


def needs_policies(resource: cdk.CfnResource, *roles: iam.Role) -> None:
    """Make a resource wait for its roles' policies, not only for the roles, which have no permissions at first."""
    resource.node.add_dependency(*(role.node.find_child("DefaultPolicy") for role in roles))


def regional_arn(service: str, resource: str) -> str:
    """Return an ARN in the stack's own partition, Region, and account."""
    partition, region, account = _pseudo_parameters()
    return f"arn:{partition}:{service}:{region}:{account}:{resource}"


def runbook_permissions(runbook_arn: str, role: iam.Role) -> list[Permission]:
    """Return the permissions to start a runbook that assumes `role`.

    https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-cwe-target.html (read 2026-11-23)
    """
    to_automation = {"StringEquals": {"iam:PassedToService": "ssm.amazonaws.com"}}
    return [
        Permission(("ssm:StartAutomationExecution",), (runbook_arn,)),
        Permission(("iam:PassRole",), (role.role_arn,), conditions=to_automation),
    ]


@cache
def _pseudo_parameters() -> dict[str, str]:
    """Return how cdk-nag spells the CDK's tokens of the partition, the Region, and the account, in this order.

    The tokens are the same for every stack. To read one is a message to the CDK's runtime.
    """
    aws = cdk.Aws
    return {aws.PARTITION: "<AWS::Partition>", aws.REGION: "<AWS::Region>", aws.ACCOUNT_ID: "<AWS::AccountId>"}


def _as_reported(role: iam.Role, resource: str) -> str:
    """Return the resource as cdk-nag spells it: `<Logical.Attribute>` in its own stack, otherwise the export's name."""
    stack = cdk.Stack.of(role)

    def spell(marker: re.Match[str]) -> str:
        if spelled := _pseudo_parameters().get(marker[0]):
            return spelled
        token = cdk.Tokenization.reverse_string(marker[0]).tokens[0]
        if cdk.Reference.is_reference(token):
            owner = cdk.Stack.of(cast(cdk.Reference, token).target)
            if owner.node.path != stack.node.path:
                return str(stack.resolve(owner.export_value(marker[0]))["Fn::ImportValue"])
        resolved = stack.resolve(token)
        return f"<{resolved['Ref']}>" if "Ref" in resolved else f"<{'.'.join(resolved['Fn::GetAtt'])}>"

    return TOKEN.sub(spell, resource)
