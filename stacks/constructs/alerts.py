"""Where alarms go."""

from __future__ import annotations

from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct


class Alerts(Construct):
    """An SNS topic that takes messages over TLS only, and the address that hears of them."""

    def __init__(self, scope: Construct, id: str, *, name: str, notify: str | None) -> None:
        super().__init__(scope, id)
        self.topic = sns.Topic(self, "Topic", display_name=f"Trainway {name}", enforce_ssl=True)
        if notify:
            self.topic.add_subscription(subscriptions.EmailSubscription(notify))
