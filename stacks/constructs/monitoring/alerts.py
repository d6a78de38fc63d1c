"""The topic for the platform's alarms."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from stacks.constructs.iam.permissions import regional_arn
from stacks.constructs.retention import goes_with_its_stack


class Alerts(Construct):
    """An encrypted SNS topic that accepts messages only over TLS, and the address that receives them.

    It has a key of its own, because `alias/aws/sns` does not let CloudWatch publish. The policy that enforces TLS
    replaces the one by which the account may publish, so the policy names the account's alarms, and with
    `from_prometheus` its workspaces of Amazon Managed Service for Prometheus.
    https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns (read 2026-11-21)
    """

    def __init__(
        self, scope: Construct, id: str, *, name: str, notify: str | None, from_prometheus: bool = False
    ) -> None:
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
        if from_prometheus:
            workspaces = regional_arn("aps", "workspace/*")
            self.key.add_to_resource_policy(_let("aps", workspaces, "kms:Decrypt", "kms:GenerateDataKey", resource="*"))
            # https://docs.aws.amazon.com/prometheus/latest/userguide/AMP-alertmanager-receiver-AMPpermission.html
            # (read 2026-11-25)
            self.topic.add_to_resource_policy(
                _let("aps", workspaces, "sns:GetTopicAttributes", "sns:Publish", resource=self.topic.topic_arn)
            )
        if notify:
            self.topic.add_subscription(subscriptions.EmailSubscription(notify))


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
