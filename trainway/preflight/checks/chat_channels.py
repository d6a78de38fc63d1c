"""The Slack workspace and the team of Microsoft Teams that get the messages of a platform."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error
from trainway.spec.sections.observability import MicrosoftTeams, Slack

# The service is one for all Regions, and has an endpoint in some of them.
# https://docs.aws.amazon.com/general/latest/gr/chatbot.html (read 2026-11-27)
_REGION: Final = "us-west-2"


@check("chatbot:DescribeSlackWorkspaces", "chatbot:ListMicrosoftTeamsConfiguredTeams")
def chat_channels(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The account has authorized the workspace of Slack and the team of Microsoft Teams, which only a person can do."""
    told = inquiry.platform.observability
    if told.slack is not None:
        yield from _slack(inquiry, told.slack)
    if told.microsoft_teams is not None:
        yield from _microsoft_teams(inquiry, told.microsoft_teams)


def _slack(inquiry: Inquiry, asked: Slack) -> Iterator[AccountFinding]:
    pages = inquiry.aws.pages("chatbot", "describe_slack_workspaces", region=_REGION)
    known = [each["SlackTeamId"] for page in pages for each in page["SlackWorkspaces"]]
    if asked.workspace not in known:
        yield error(
            f"the Slack workspace {asked.workspace} is not authorized",
            why=f"account {inquiry.aws.number} has authorized {', '.join(known) or 'none'}",
            fix="configure a Slack client in the console of Amazon Q Developer in chat applications",
            key=("observability", "slack", "workspace"),
        )


def _microsoft_teams(inquiry: Inquiry, asked: MicrosoftTeams) -> Iterator[AccountFinding]:
    pages = inquiry.aws.pages("chatbot", "list_microsoft_teams_configured_teams", region=_REGION)
    teams = [each for page in pages for each in page["ConfiguredTeams"]]
    known = {(each["TenantId"].lower(), each["TeamId"].lower()): each for each in teams}
    found = known.get((asked.tenant.lower(), asked.team.lower()))
    key = ("observability", "microsoft_teams", "team")
    if found is None:
        said = ", ".join(f"{team} of the tenant {tenant}" for tenant, team in known)
        yield error(
            f"the team {asked.team} of the tenant {asked.tenant} of Microsoft Teams is not authorized",
            why=f"account {inquiry.aws.number} has authorized {said or 'none'}",
            fix="configure a Microsoft Teams client in the console of Amazon Q Developer in chat applications",
            key=key,
        )
    elif found.get("State") == "DISABLED":
        yield error(
            f"the team {asked.team} of Microsoft Teams is disabled for account {inquiry.aws.number}",
            why=found.get("StateReason") or "a policy of the organization denies it",
            fix="ask the administrators of the organization for its policy of chat applications",
            key=key,
        )
