"""Whether the roles of a deploy may do what the deploy does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.deployer import DeployerStatement, assumed_roles, deployer_statements, execution_role
from trainway.preflight.finding import AccountFinding, error, not_checked

# Of one call. The API names no limit.
AT_ONCE: Final = 100
SHOWN: Final = 6
PRINT: Final = "`trainway preflight --print-policy` prints the policies that suffice"


@check("iam:GetRole", "iam:SimulatePrincipalPolicy")
def permissions(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The caller may assume the roles of the CDK, and CloudFormation's role may do what the stacks require."""
    aws = inquiry.aws
    role = execution_role(aws.partition, aws.number, aws.region)
    denied = list[str]()
    exists = True
    for statement in deployer_statements(inquiry.platform, aws.partition, aws.number):
        found = _denied(inquiry, role, statement.actions, [_one(statement)])
        exists, denied = found is not None, [*denied, *(found or [])]
        if not exists:
            break
    if not exists:
        yield error(
            f"the role {role.rpartition('/')[2]} does not exist",
            why="CloudFormation creates the platform in this role, which the CDK's bootstrap creates",
            fix=f"cdk bootstrap aws://{aws.number}/{aws.region}",
        )
    elif denied:
        more = f" and {len(denied) - SHOWN} more" if len(denied) > SHOWN else ""
        yield error(
            f"the role {role.rpartition('/')[2]} may not {', '.join(denied[:SHOWN])}{more}",
            why="CloudFormation creates the platform in this role",
            fix=f"{PRINT}. Attach them to the role by `cdk bootstrap --cloudformation-execution-policies`",
        )
    yield from _caller(inquiry)


def _caller(inquiry: Inquiry) -> Iterator[AccountFinding]:
    aws, caller = inquiry.aws, _principal(inquiry)
    if caller is None:
        return
    roles = assumed_roles(aws.partition, aws.number, aws.region)
    denied = _denied(inquiry, caller, ("sts:AssumeRole",), roles)
    if denied is None:
        whose = "the IAM of the emulated AWS" if aws.is_emulated else "IAM"
        yield not_checked(
            f"whether {caller} may assume the CDK's roles",
            why=f"{whose} has no user or role of this name",
            fix=f"aws sts assume-role --role-session-name preflight --role-arn {roles[0]}",
        )
    elif denied:
        yield error(
            f"{caller} may not assume the roles of the CDK's bootstrap",
            why=f"a deploy uploads its files and creates its stacks in {', '.join(roles)}",
            fix="allow the caller sts:AssumeRole on these roles",
        )


def _principal(inquiry: Inquiry) -> str | None:
    """Return the caller's user, or the role that it has assumed, as IAM names it; None for the account's root user."""
    caller = inquiry.aws.caller
    kind, _, rest = caller.rpartition(":")[2].partition("/")
    if kind == "assumed-role":
        # A session's ARN leaves out the path of the role, which an organization's roles have.
        found = inquiry.aws.ask("iam", "get_role", RoleName=rest.partition("/")[0], absent=["NoSuchEntity"])
        return found["Role"]["Arn"] if found else caller
    return f"arn:{inquiry.aws.partition}:iam::{inquiry.aws.number}:user/{rest}" if kind == "user" else None


def _one(statement: DeployerStatement) -> str:
    """Return a resource that the statement is about: IAM compares `*` in a policy with it, and not a pattern."""
    return statement.resource if statement.resource == "*" else statement.resource.replace("*", "example")


def _denied(inquiry: Inquiry, principal: str, actions: Sequence[str], resources: list[str]) -> list[str] | None:
    """Return the actions that IAM denies, once each; None if there is no such principal."""
    denied = dict[str, None]()
    for start in range(0, len(actions), AT_ONCE):
        answer = inquiry.aws.ask(
            "iam",
            "simulate_principal_policy",
            PolicySourceArn=principal,
            ActionNames=list(actions[start : start + AT_ONCE]),
            ResourceArns=resources,
            absent=["NoSuchEntity"],
        )
        if answer is None:
            return None
        denied |= {
            each["EvalActionName"]: None for each in answer["EvaluationResults"] if each["EvalDecision"] != "allowed"
        }
    return list(denied)
