"""Where alarms go."""

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
    """An encrypted SNS topic that takes messages over TLS only, and the address that hears of them.

    Its key is its own: that of `alias/aws/sns` does not let CloudWatch publish. And with a policy of its own, which TLS
    needs, a topic lacks the one by which its account may publish, so the account's alarms are let in by name.
    https://repost.aws/knowledge-center/cloudwatch-configure-alarm-sns (read 2026-11-21)
    """

    def __init__(self, scope: Construct, id: str, *, name: str, notify: str | None) -> None:
        super().__init__(scope, id)
        key = kms.Key(
            self,
            "Key",
            description=f"Alerts of {name}",
            enable_key_rotation=True,
        )
        # SNS keeps a message until it is delivered; nothing is lost with the key.
        goes_with_its_stack(key)
        self.topic = sns.Topic(self, "Topic", display_name=f"Trainway {name}", enforce_ssl=True, master_key=key)
        key.add_to_resource_policy(_let_alarms("kms:Decrypt", "kms:GenerateDataKey", resource="*"))
        self.topic.add_to_resource_policy(_let_alarms("sns:Publish", resource=self.topic.topic_arn))
        if notify:
            self.topic.add_subscription(subscriptions.EmailSubscription(notify))


def _let_alarms(*actions: str, resource: str) -> iam.PolicyStatement:
    return iam.PolicyStatement(
        principals=[iam.ServicePrincipal("cloudwatch.amazonaws.com")],
        actions=list(actions),
        resources=[resource],
        conditions={
            "ArnLike": {"aws:SourceArn": regional_arn("cloudwatch", "alarm:*")},
            "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
        },
    )
