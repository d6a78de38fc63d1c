"""What a role may do: every wildcard carries the reason for it, where it is granted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import aws_cdk as cdk
from aws_cdk import aws_iam as iam

from stacks.constructs.iam.acknowledge import acknowledge

# How CDK marks, inside a string, a value that only the deploy knows.
TOKEN = re.compile(r"\$\{Token\[[^\]]+\]\}")

# What a service reads before it puts a network interface into a VPC.
LOOK_AT_NETWORK = (
    "ec2:DescribeDhcpOptions",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSecurityGroups",
    "ec2:DescribeSubnets",
    "ec2:DescribeVpcs",
)


@dataclass(frozen=True)
class Permission:
    """An IAM statement; `because` says why a resource holds a wildcard, and is required where one does."""

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
    """Adds the permissions to the role's own policy, and accepts cdk-nag's finding for each reasoned wildcard."""
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
    """Makes a resource wait for what its roles may do, and not only for the roles, which are empty when they appear."""
    resource.node.add_dependency(*(role.node.find_child("DefaultPolicy") for role in roles))


def regional_arn(service: str, resource: str) -> str:
    """An ARN in the stack's own partition, Region and account."""
    return f"arn:{cdk.Aws.PARTITION}:{service}:{cdk.Aws.REGION}:{cdk.Aws.ACCOUNT_ID}:{resource}"


def _as_reported(role: iam.Role, resource: str) -> str:
    """The resource as cdk-nag spells it: `<Logical.Attribute>` within a stack, the export's name across stacks."""
    stack = cdk.Stack.of(role)

    def spell(marker: re.Match[str]) -> str:
        token = cdk.Tokenization.reverse_string(marker[0]).tokens[0]
        if cdk.Reference.is_reference(token):
            owner = cdk.Stack.of(cast(cdk.Reference, token).target)
            if owner.node.path != stack.node.path:
                return str(stack.resolve(owner.export_value(marker[0]))["Fn::ImportValue"])
        resolved = stack.resolve(token)
        return f"<{resolved['Ref']}>" if "Ref" in resolved else f"<{'.'.join(resolved['Fn::GetAtt'])}>"

    return TOKEN.sub(spell, resource)
