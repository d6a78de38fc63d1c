"""A budget that tells somebody of costs."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, warning


@check("budgets:ViewBudget")
def budget(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The account has a budget, and somebody is told when its costs pass it."""
    aws = inquiry.aws
    if inquiry.platform.budget is not None:
        return  # the deploy creates one
    if aws.partition != "aws":
        return  # other partitions have other endpoints of AWS Budgets, or none
    answer = aws.ask(
        "budgets", "describe_budgets", AccountId=aws.number, region="us-east-1", absent=["NotFoundException"]
    )
    budgets = (answer or {}).get("Budgets", [])
    fix = "write the section `budget`, so that the deploy creates one; `trainway plan` shows the price"
    if not budgets:
        yield warning(
            f"account {aws.number} has no budget",
            why="idle accelerated nodes cost as much as busy ones, and nobody is told",
            fix=fix,
        )
        return
    for each in budgets:
        told = aws.ask(
            "budgets",
            "describe_notifications_for_budget",
            AccountId=aws.number,
            BudgetName=each["BudgetName"],
            region="us-east-1",
            absent=["NotFoundException"],
        )
        if told and told.get("Notifications"):
            return
    yield warning(
        f"no budget of account {aws.number} tells anybody",
        why=f"{' and '.join(each['BudgetName'] for each in budgets)} has no notification",
        fix="add one: `aws budgets create-notification`",
    )
