"""IAM roles and users that get access to the cluster."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath


@check("iam:GetRole", "iam:GetUser")
def people(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each role and user of this account that the file gives access to the cluster exists, under this ARN."""
    if not inquiry.platform.orchestrator.is_kubernetes:
        return
    for key, arn in _principals(inquiry):
        account, kind, path = arn.split(":")[4], *arn.split(":", 5)[5].split("/", 1)
        if account != inquiry.aws.number:
            continue  # only its own account may be asked
        name = path.rpartition("/")[2]
        if kind == "role":
            answer = inquiry.aws.ask("iam", "get_role", RoleName=name, absent=["NoSuchEntity"])
        else:
            answer = inquiry.aws.ask("iam", "get_user", UserName=name, absent=["NoSuchEntity"])
        real = answer["Role" if kind == "role" else "User"]["Arn"] if answer else None
        if real is None:
            yield error(
                f"there is no IAM {kind} {name}",
                why="EKS refuses an access entry for one that does not exist",
                fix=f"write one that exists; `aws iam list-{kind}s` lists them",
                key=key,
            )
        elif real != arn:
            yield error(
                f"the ARN of the IAM {kind} {name} is {real}",
                why="an access entry takes the ARN with its path",
                fix=f"write {real}",
                key=key,
            )


def _principals(inquiry: Inquiry) -> Iterator[tuple[KeyPath, str]]:
    platform = inquiry.platform
    for name, named in (
        ("admins", platform.kubernetes_or_default.admins),
        ("viewers", platform.kubernetes_or_default.viewers),
    ):
        yield from ((("kubernetes", name, index), arn) for index, arn in enumerate(named))
    for number, team in enumerate(platform.teams):
        yield from ((("teams", number, "members", index), arn) for index, arn in enumerate(team.members))
