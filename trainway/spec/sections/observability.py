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
        raise wrong(reason, "use observability.slack, or a host of yours that passes messages on")
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
    urls: tuple[MessageUrl, ...] = Field(
        (),
        description="Addresses to which SNS posts alarms and events, for example "
        "[https://events.example.com/trainway]. Each gets a request for confirmation first. Default: none.",
    )
    mlflow: MlflowArn | None = Field(
        None,
        description="ARN of an MLflow App or a tracking server of SageMaker. All jobs may report to it, as "
        "docs/trackers.md shows. Default: none.",
    )
