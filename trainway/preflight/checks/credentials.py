"""Who calls: an account that can have this platform."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.problems import KeyPath
from trainway.spec.sections.capacity import TrainingPlan


@check("sts:GetCallerIdentity")
def credentials(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The credentials of this shell are valid, and of the account that the ARNs of the file are of."""
    for key, arn in _arns_of_the_account(inquiry):
        account = arn.split(":")[4]
        if account != inquiry.aws.number:
            yield error(
                f"this shell is signed in to account {inquiry.aws.number}, and the file names one of {account}",
                why="training plans and IAM roles of a platform are of its own account",
                fix=f"sign in to account {account}, or name what is in account {inquiry.aws.number}",
                key=key,
            )


def _arns_of_the_account(inquiry: Inquiry) -> Iterator[tuple[KeyPath, str]]:
    for index, group in enumerate(inquiry.platform.node_groups):
        if isinstance(group.capacity, TrainingPlan):
            yield ("node_groups", index, "capacity", "training_plan"), group.capacity.training_plan
