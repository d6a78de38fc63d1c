"""The topic for the platform's alarms, and who is told."""

from __future__ import annotations

from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_chatbot as chatbot
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.constructs.iam.permissions import regional_arn
from stacks.constructs.retention import goes_with_its_stack
from trainway.spec.sections.observability import MicrosoftTeams, Observability, Slack


class Alerts(Construct):
    """An encrypted SNS topic that accepts messages only over TLS, and the addresses and channels that receive them.

    It has a key of its own, because `alias/aws/sns` does not let CloudWatch publish. The policy that enforces TLS
    replaces the one by which the account may publish, so the policy names the account's alarms and its workspaces of
    Amazon Managed Service for Prometheus. The workspace of a platform may come and go.
    https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns (read 2026-11-21)
    """

    def __init__(self, scope: Construct, id: str, *, name: str, told: Observability) -> None:
        super().__init__(scope, id)
        self.key = kms.Key(
            self,
            "Key",
            description=f"Alerts of {name}",
            enable_key_rotation=True,
        )
        # SNS keeps a message only until it is delivered, so deleting the key loses nothing.
        goes_with_its_stack(self.key)
        self.topic = sns.Topic(self, "Topic", display_name=f"Trainway {name}", enforce_ssl=True, master_key=self.key)
        self.key.add_to_resource_policy(_let_alarms("kms:Decrypt", "kms:GenerateDataKey", resource="*"))
        self.topic.add_to_resource_policy(_let_alarms("sns:Publish", resource=self.topic.topic_arn))
        workspaces = regional_arn("aps", "workspace/*")
        self.key.add_to_resource_policy(_let("aps", workspaces, "kms:Decrypt", "kms:GenerateDataKey", resource="*"))
        # https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-receiver-AMPpermission.html
        # (read 2026-11-25)
        self.topic.add_to_resource_policy(
            _let("aps", workspaces, "sns:GetTopicAttributes", "sns:Publish", resource=self.topic.topic_arn)
        )
        if told.notify:
            self.topic.add_subscription(subscriptions.EmailSubscription(told.notify))
        for url in dict.fromkeys(told.urls):
            self.topic.add_subscription(subscriptions.UrlSubscription(url))
        if told.slack:
            self._tell_slack(name, told.slack)
        if told.microsoft_teams:
            self._tell_microsoft_teams(name, told.microsoft_teams)

    def _tell_slack(self, name: str, slack: Slack) -> None:
        """Let Amazon Q Developer subscribe a channel of Slack to the topic.

        The name has the workspace, because another workspace is another configuration, which exists before the former
        one is deleted.
        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-chatbot-slackchannelconfiguration.html
        (read 2026-11-27)
        """
        chatbot.CfnSlackChannelConfiguration(
            self,
            "Slack",
            configuration_name=f"{name}-{slack.workspace}",
            slack_workspace_id=slack.workspace,
            slack_channel_id=slack.channel,
            **self._without_permissions("SlackRole"),
        )

    def _tell_microsoft_teams(self, name: str, teams: MicrosoftTeams) -> None:
        """Let Amazon Q Developer subscribe a channel of Microsoft Teams to the topic.

        The name has the tenant and the team, as that of a channel of Slack has the workspace.
        https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-chatbot-microsoftteamschannelconfiguration.html
        (read 2026-12-01)
        """
        chatbot.CfnMicrosoftTeamsChannelConfiguration(
            self,
            "MicrosoftTeams",
            configuration_name=f"{name}-{teams.tenant}-{teams.team}",
            teams_tenant_id=teams.tenant,
            team_id=teams.team,
            teams_channel_id=teams.channel,
            **self._without_permissions("MicrosoftTeamsRole"),
        )

    def _without_permissions(self, role_id: str) -> dict[str, Any]:
        """Return the properties of a channel that gets the messages of the topic, and can read and run nothing.

        A channel without a guardrail may do all that an administrator may.
        """
        role = iam.Role(self, role_id, assumed_by=iam.ServicePrincipal("chatbot.amazonaws.com"))
        return {
            "iam_role_arn": role.role_arn,
            "guardrail_policies": [f"arn:{cdk.Aws.PARTITION}:iam::aws:policy/AWSDenyAll"],
            "sns_topic_arns": [self.topic.topic_arn],
        }


def _let_alarms(*actions: str, resource: str) -> iam.PolicyStatement:
    return _let("cloudwatch", regional_arn("cloudwatch", "alarm:*"), *actions, resource=resource)


def _let(service: str, source: str, *actions: str, resource: str) -> iam.PolicyStatement:
    """Return a statement that lets a service act for its resources `source` of the account."""
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal(f"{service}.amazonaws.com")],
        actions=list(actions),
        resources=[resource],
        conditions={
            "ArnLike": {"aws:SourceArn": source},
            "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
        },
    )
