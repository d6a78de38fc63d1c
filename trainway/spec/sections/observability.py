"""`observability`: metrics and alarms."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from trainway.spec.sections.fields import PORT, Email, reachable_host
from trainway.spec.values import Matches, Section, wrong

# https://docs.aws.amazon.com/chatbot/latest/APIReference/API_SlackChannelConfiguration.html (read 2026-11-27)
SlackWorkspaceId = Annotated[
    str,
    Matches(
        r"T[0-9A-Z]{1,254}",
        "it is not the ID of a Slack workspace, which begins with T",
        "copy the ID that the console of Amazon Q Developer in chat applications shows, as in T0123ABCD",
    ),
]
SlackChannelId = Annotated[
    str,
    Matches(
        r"[CG][0-9A-Z]{1,254}",
        "it is not the ID of a Slack channel, which begins with C or G",
        "copy the end of the channel's link in Slack, as in C0123ABCD",
    ),
]
# The patterns of the schema of AWS::Chatbot::MicrosoftTeamsChannelConfiguration:
# https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-chatbot-microsoftteamschannelconfiguration.html
# (read 2026-12-01)
MicrosoftId = Annotated[
    str,
    Matches(
        r"[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}",
        "it is not the ID of a tenant or a team of Microsoft Teams, which is a UUID",
        "copy the ID that the console of Amazon Q Developer in chat applications shows, as in "
        "0123abcd-4567-89ab-cdef-0123456789ab",
    ),
]
TeamsChannelId = Annotated[
    str,
    Matches(
        r"[A-Za-z0-9_=+/.,-]{1,80}%3[aA][A-Za-z0-9_=+/.,-]{1,80}%40[A-Za-z0-9_=+/.,-]{1,80}",
        "it is not the ID of a channel of Microsoft Teams as in the channel's link, with %3a and %40",
        "copy the part of the channel's link behind /channel/, as in 19%3a0123456789abcdef%40thread.tacv2",
    ),
]
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AIMlflowConfig.html (read 2026-11-27)
MlflowArn = Annotated[
    str,
    Matches(
        r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:mlflow-(app|tracking-server)/[^\s*]+",
        "it is not the ARN of an MLflow App or of a tracking server of SageMaker",
        "write it as in arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-ABC",
    ),
]


def _posted_to(address: str) -> str:
    """Refuse what SNS cannot reach, or what does not answer its request for confirmation."""
    host = urlsplit(address).hostname or ""
    if re.fullmatch(r"\d+(\.\d+){3}", host):
        reason = "SNS posts from the internet, to hosts with a certificate for their name"
        raise wrong(reason, "write the public name of a host")
    if host == "hooks.slack.com" or host.endswith(".webhook.office.com"):
        reason = "its webhooks take no messages of SNS, and do not confirm that they get them"
        key = "observability.slack" if host == "hooks.slack.com" else "observability.microsoft_teams"
        raise wrong(reason, f"use {key}, or a host of yours that passes messages on")
    return reachable_host(address)


MessageUrl = Annotated[
    str,
    Matches(
        rf"https://[A-Za-z0-9.-]+({PORT})?(/[!-?A-~]*)?",
        "it is not an https:// address without a login, which everybody who sees the template would see",
        "write it as in https://events.example.com/trainway; SNS signs each message",
    ),
    AfterValidator(_posted_to),
]


class Slack(Section):
    """`observability.slack`: a channel of Slack that gets the messages."""

    workspace: SlackWorkspaceId = Field(
        description="ID of the Slack workspace. Authorize it first in the console of Amazon Q Developer in chat "
        "applications, which shows the ID."
    )
    channel: SlackChannelId = Field(description="ID of the channel: the end of the channel's link in Slack.")


class MicrosoftTeams(Section):
    """`observability.microsoft_teams`: a channel of Microsoft Teams that gets the messages."""

    tenant: MicrosoftId = Field(
        description="ID of the tenant of Microsoft Teams. Authorize the team first in the console of Amazon Q "
        "Developer in chat applications, which shows both IDs."
    )
    team: MicrosoftId = Field(description="ID of the team in the tenant.")
    channel: TeamsChannelId = Field(
        description="ID of the channel: the part behind /channel/ in the channel's link in Microsoft Teams, for "
        "example 19%3a0123456789abcdef%40thread.tacv2."
    )


class Observability(Section):
    """Metrics of the platform, and who is notified of alarms."""

    metrics: Literal["prometheus", "cloudwatch", "none"] = Field(
        "prometheus",
        description="prometheus collects the metrics of nodes, GPUs, EFA, queues, and runs in a workspace of Amazon "
        "Managed Service for Prometheus, with all alarms, where AWS has a collector. With none or cloudwatch, nothing "
        "is collected, and the platform has only the metrics and alarms of AWS services in CloudWatch.",
    )
    notify: Email | None = Field(None, description="Email address for alarms. AWS sends it a confirmation request.")
    slack: Slack | None = Field(None, description="Channel of Slack for alarms and events. Default: none.")
    microsoft_teams: MicrosoftTeams | None = Field(
        None, description="Channel of Microsoft Teams for alarms and events. Default: none."
    )
    urls: tuple[MessageUrl, ...] = Field(
        (),
        description="Addresses to which SNS posts alarms and events, for example "
        "[https://events.example.com/trainway]. Each gets a request for confirmation first. Default: none.",
    )
    mlflow: MlflowArn | None = Field(
        None,
        description="ARN of an MLflow App or a tracking server of SageMaker. All jobs may report to it, and "
        "those with `trackers: {mlflow: {}}` do, as docs/trackers.md shows. Default: none.",
    )
