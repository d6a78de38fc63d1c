"""The monthly budget of a platform."""

from __future__ import annotations

from aws_cdk import aws_budgets as budgets
from constructs import Construct

from trainway.spec.platform import Platform

CfnBudget = budgets.CfnBudget


def monthly_budget(scope: Construct, platform: Platform) -> None:
    """Create the budget that the platform file describes, if it does.

    A filter names a tag and its value as `user:KEY$VALUE`:
    https://github.com/aws/aws-cli/blob/develop/awscli/examples/budgets/create-budget.rst (read 2026-11-25)
    """
    asked = platform.budget
    if asked is None:
        return
    tag = asked.tag or next(iter(platform.tags))
    address = str(asked.notify or platform.observability.notify)
    thresholds = [("ACTUAL", percent) for percent in asked.at_percent]
    thresholds += [("FORECASTED", 100)] if asked.forecast else []
    CfnBudget(
        scope,
        "Budget",
        budget=CfnBudget.BudgetDataProperty(
            budget_name=f"trainway-{platform.name}-{platform.region}",
            budget_type="COST",
            time_unit="MONTHLY",
            budget_limit=CfnBudget.SpendProperty(amount=asked.monthly_usd, unit="USD"),
            cost_filters={"TagKeyValue": [f"user:{tag}${platform.tags[tag]}"]},
        ),
        notifications_with_subscribers=[
            CfnBudget.NotificationWithSubscribersProperty(
                notification=CfnBudget.NotificationProperty(
                    notification_type=kind,
                    comparison_operator="GREATER_THAN",
                    threshold=percent,
                    threshold_type="PERCENTAGE",
                ),
                subscribers=[CfnBudget.SubscriberProperty(subscription_type="EMAIL", address=address)],
            )
            for kind, percent in thresholds
        ],
    )
