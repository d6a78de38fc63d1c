"""Whom the platform tells of alarms and events."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, warning

# https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html (read 2026-11-30)
UNCONFIRMED = "PendingConfirmation"


@check("sns:ListSubscriptions")
def subscriptions(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each address and URL that the platform tells has confirmed its subscription."""
    prefix = f":{inquiry.platform.name}-observability-"
    for page in inquiry.aws.pages("sns", "list_subscriptions"):
        for each in page["Subscriptions"]:
            if prefix in each["TopicArn"] and each["SubscriptionArn"] == UNCONFIRMED:
                topic = each["TopicArn"]
                yield warning(
                    f"{each['Endpoint']} has not confirmed that it is told",
                    why="SNS sends nothing to it until it confirms the message that it got at the deploy",
                    fix="follow the link in that message, or ask for another: aws sns subscribe "
                    f"--region {inquiry.aws.region} --topic-arn {topic} --protocol {each['Protocol']} "
                    f"--notification-endpoint {each['Endpoint']}",
                    key=("observability",),
                )
