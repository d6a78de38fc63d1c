"""The Slack workspace that gets the messages of a platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error

# The service is one for all Regions, and has an endpoint in some of them.
# https://docs.aws.amazon.com/general/latest/gr/chatbot.html (read 2026-11-27)
_REGION: Final = "us-west-2"


@check("chatbot:DescribeSlackWorkspaces")
def slack(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The account has authorized the Slack workspace of `observability.slack`, which only a person can do."""
    asked = inquiry.platform.observability.slack
    if asked is None:
        return
    answer = inquiry.aws.ask("chatbot", "describe_slack_workspaces", region=_REGION)
    known = [each["SlackTeamId"] for each in (answer or {}).get("SlackWorkspaces", [])]
    if asked.workspace not in known:
        yield error(
            f"the Slack workspace {asked.workspace} is not authorized",
            why=f"account {inquiry.aws.number} has authorized {', '.join(known) or 'none'}",
            fix="configure a Slack client in the console of Amazon Q Developer in chat applications",
            key=("observability", "slack", "workspace"),
        )
