"""What a deploy may do: the roles of the CDK's bootstrap, and the policies that suffice for CloudFormation's role.

CloudFormation's registry says which actions it calls for a resource type. The file beside this module has them for
every type of the templates; `python -m tests.deployer_actions` writes it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from trainway.spec.platform import Platform

ACTIONS_FILE: Final = Path(__file__).with_name("deployer_actions.json")
# The CDK's own, which cdk.json leaves as it is.
QUALIFIER: Final = "hnb659fds"
# Types that only some platforms have, by the beginning of their names.
_KUBERNETES, _HYPERPOD = "AWS::EKS::", "AWS::SageMaker::"
# CloudFormation reads the parameters of templates in this role.
_OF_TEMPLATES: Final = frozenset({"ssm:GetParameters"})
# Characters of a managed policy, without white space:
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html (read 2026-11-25)
LARGEST_POLICY: Final = 6144


@dataclass(frozen=True)
class DeployerStatement:
    """Actions, and the resources on which CloudFormation's role calls them."""

    actions: tuple[str, ...]
    resource: str


def execution_role(partition: str, account: str, region: str) -> str:
    """Return the ARN of the role in which CloudFormation creates resources."""
    return f"arn:{partition}:iam::{account}:role/cdk-{QUALIFIER}-cfn-exec-role-{account}-{region}"


def assumed_roles(partition: str, account: str, region: str) -> list[str]:
    """Return the ARNs of the roles that whoever deploys assumes."""
    role = f"arn:{partition}:iam::{account}:role/cdk-{QUALIFIER}"
    return [f"{role}-{what}-role-{account}-{region}" for what in ("deploy", "file-publishing")]


def deployer_statements(platform: Platform, partition: str, account: str) -> tuple[DeployerStatement, ...]:
    """Return what CloudFormation's role must be allowed for a platform of these orchestrators.

    The roles of a platform have names that begin with those of its stacks, and so with its own.
    """
    actions = sorted(deployer_actions(platform))
    roles = f"arn:{partition}:iam::{account}:role/"
    linked = tuple(each for each in actions if each == "iam:CreateServiceLinkedRole")
    iam = tuple(each for each in actions if each.startswith("iam:") and each not in linked and each != "iam:ListRoles")
    others = tuple(each for each in actions if each not in iam and each not in linked)
    return (
        DeployerStatement(others, "*"),
        DeployerStatement(iam, f"{roles}{platform.name}-*"),
        DeployerStatement(linked, f"{roles}aws-service-role/*"),
    )


def deployer_actions(platform: Platform) -> frozenset[str]:
    """Return the actions that CloudFormation calls for the types that a platform of this orchestrator can have."""
    orchestrator = platform.orchestrator
    used = {_KUBERNETES: orchestrator.is_kubernetes, _HYPERPOD: orchestrator.is_hyperpod}
    left_out = tuple(kind for kind, is_used in used.items() if not is_used)
    types = _types()
    return frozenset[str]().union(_OF_TEMPLATES, *(types[kind] for kind in types if not kind.startswith(left_out)))


def policies(platform: Platform, partition: str, account: str) -> list[dict[str, Any]]:
    """Return managed policies that suffice, as few as the size of a policy allows."""
    found = list[list[dict[str, Any]]]([[]])
    for statement in deployer_statements(platform, partition, account):
        for action in statement.actions:
            with_it = _with_action(found[-1], action, statement.resource)
            if len(json.dumps(_policy(with_it), separators=(",", ":"))) > LARGEST_POLICY:
                found.append(_with_action([], action, statement.resource))
            else:
                found[-1] = with_it
    return [_policy(statements) for statements in found]


def _with_action(statements: list[dict[str, Any]], action: str, resource: str) -> list[dict[str, Any]]:
    *others, last = statements or [{"Resource": None}]
    if last["Resource"] == resource:
        return [*others, last | {"Action": [*last["Action"], action]}]
    return [*statements, {"Effect": "Allow", "Action": [action], "Resource": resource}]


def _policy(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


@cache
def _types() -> dict[str, list[str]]:
    types: dict[str, list[str]] = json.loads(ACTIONS_FILE.read_text(encoding="utf-8"))["types"]
    return types
