"""Messages about events of AWS: a rule for each kind, a queue, and the runbook that makes the words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sqs as sqs
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.iam.acknowledge import acknowledge
from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn, runbook_permissions
from stacks.constructs.iam.trust import service
from stacks.constructs.monitoring.alerts import Alerts
from trainway.monitoring.events import TOLD_PREFIX, EventKind, events_queue
from trainway.spec.platform import Platform
from trainway.spec.teams.team_data import RECORDS

# The newest of https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html
RUNTIME = "python3.11"
KIND = "EventKind"
# The event as a whole, in a template of EventBridge.
# https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-transform-target-input.html (read 2026-11-30)
EVENT = "<aws.events.event.json>"
SECONDS = 120


class EventMessages(Construct):
    """Rules that send events to a queue, and start a runbook, which tells of all events in the queue.

    The runbook looks up the runs on a node, and publishes to the topic of the alarms. A rule could publish by itself,
    and could not look up a run. A runbook has no parameter for the event itself: a value has at most 512 characters,
    and must be neither null nor empty. What was not told stays in the queue, which has an alarm.
    https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_StartAutomationExecution.html (read 2026-11-30)
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        kinds: Sequence[EventKind],
        bucket: s3.IBucket,
        alerts: Alerts,
    ) -> None:
        super().__init__(scope, id)
        prefixes = [f"runs/{RECORDS}/", *(f"runs/{team.name}/{RECORDS}/" for team in platform.teams)]
        name = events_queue(platform.name)
        self.queue = queue = _queue(self, name)
        role = iam.Role(self, "Role", assumed_by=service("ssm"))
        grant(role, *_permissions(kinds, bucket, prefixes, alerts, queue))
        payload = {
            "platform": platform.name,
            "queue": queue.queue_url,
            "topic": alerts.topic.topic_arn,
            "bucket": bucket.bucket_name,
            "prefixes": prefixes,
            "kinds": {each.name: _words(each) for each in kinds},
        }
        runbook = ssm.CfnDocument(
            self,
            "Runbook",
            name=name,
            document_type="Automation",
            document_format="JSON",
            update_method="NewVersion",
            content=_content(platform, role, payload),
        )
        runbook_arn = regional_arn("ssm", f"automation-definition/{name}:$DEFAULT")
        starter = iam.Role(self, "StarterRole", assumed_by=service("events"))
        grant(starter, *runbook_permissions(runbook_arn, role))
        self._sending = _let_rules_send(queue)
        self.rules: list[events.CfnRule] = []
        for kind in kinds:
            rule = events.CfnRule(
                self,
                kind.name,
                description=f"Tells people of the platform {platform.name} of {kind.name}",
                event_pattern=dict(kind.pattern),
                targets=_targets(kind, queue, runbook_arn, starter),
            )
            rule.add_resource_dependency(runbook)
            needs_policies(rule, starter, role)
            self.let_send(rule)
            self.rules.append(rule)

    def let_send(self, rule: events.CfnRule) -> None:
        """Add a dependency of a rule on the policy of the queue. EventBridge drops events that it may not send."""
        if self._sending.policy_dependable is not None:
            rule.node.add_dependency(self._sending.policy_dependable)


def _queue(scope: Construct, name: str) -> sqs.Queue:
    """Create the queue of events that people are not told of yet."""
    queue = sqs.Queue(
        scope,
        "Queue",
        queue_name=name,
        encryption=sqs.QueueEncryption.SQS_MANAGED,
        enforce_ssl=True,
        retention_period=cdk.Duration.days(14),
        # An event that cannot be told is tried again with a later one.
        visibility_timeout=cdk.Duration.seconds(2 * SECONDS),
    )
    acknowledge(queue, "It keeps what could not be told, and has an alarm.", "AwsSolutions-SQS3")
    return queue


def _let_rules_send(queue: sqs.Queue) -> iam.AddToResourcePolicyResult:
    """Let EventBridge send events to the queue for the rules of this account and Region."""
    return queue.add_to_resource_policy(
        iam.PolicyStatement(
            principals=[iam.ServicePrincipal("events.amazonaws.com")],
            actions=["sqs:SendMessage"],
            resources=[queue.queue_arn],
            conditions={
                "ArnLike": {"aws:SourceArn": regional_arn("events", "rule/*")},
                "StringEquals": {"aws:SourceAccount": cdk.Aws.ACCOUNT_ID},
            },
        )
    )


def _targets(
    kind: EventKind, queue: sqs.IQueue, runbook_arn: str, starter: iam.Role
) -> list[events.CfnRule.TargetProperty]:
    """Return the targets of a kind's rule: the queue, which keeps the event, and the runbook, which empties the queue.

    `starter` is the role with which the rule starts the runbook.
    """
    return [
        events.CfnRule.TargetProperty(
            id="queue",
            arn=queue.queue_arn,
            input_transformer=events.CfnRule.InputTransformerProperty(
                input_template=f'{{"kind": "{kind.name}", "event": {EVENT}}}'
            ),
        ),
        events.CfnRule.TargetProperty(
            id="runbook",
            arn=runbook_arn,
            role_arn=starter.role_arn,
            input=json.dumps({KIND: [kind.name]}),
        ),
    ]


def _permissions(
    kinds: Sequence[EventKind], bucket: s3.IBucket, prefixes: Sequence[str], alerts: Alerts, queue: sqs.IQueue
) -> list[Permission]:
    found = [
        Permission(("sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:ReceiveMessage"), (queue.queue_arn,)),
        Permission(("sns:Publish",), (alerts.topic.topic_arn,)),
        Permission(("kms:Decrypt", "kms:GenerateDataKey"), (alerts.key.key_arn,)),
        Permission(
            ("s3:GetObject", "s3:PutObject"),
            (f"{bucket.bucket_arn}/{TOLD_PREFIX}*",),
            because="Each event that was told has an object of its own below this prefix.",
        ),
    ]
    if any(each.node for each in kinds):
        of_records = {"StringEquals": {"s3:prefix": list(prefixes)}}
        found += [
            Permission(("s3:ListBucket",), (bucket.bucket_arn,), conditions=of_records),
            Permission(
                ("s3:GetObject",),
                tuple(f"{bucket.bucket_arn}/{prefix}*" for prefix in prefixes),
                because="Each run has a record and a state of its own below these prefixes.",
            ),
        ]
    describes = {"instance": "ec2:DescribeInstances", "group": "autoscaling:DescribeAutoScalingGroups"}
    if tagged := sorted({describes[each.tagged[0]] for each in kinds if each.tagged}):
        found.append(Permission(tuple(tagged), ("*",), because="The actions have no resource-level permissions."))
    return found


def _words(kind: EventKind) -> dict[str, Any]:
    return {
        "happened": kind.happened,
        "next": kind.next,
        "node": kind.node,
        "paths": dict(kind.paths),
        "same": list(kind.same),
        "tagged": list(kind.tagged or ()),
    }


def _content(platform: Platform, role: iam.Role, payload: dict[str, Any]) -> dict[str, Any]:
    return {
        "schemaVersion": "0.3",
        "description": f"Tells people of the platform {platform.name} of events.",
        "assumeRole": role.role_arn,
        "parameters": {KIND: {"type": "String", "description": "Kind of the event that started it"}},
        "mainSteps": [
            {
                "name": "tell",
                "action": "aws:executeScript",
                "timeoutSeconds": SECONDS,
                "maxAttempts": 3,
                "inputs": {
                    "Runtime": RUNTIME,
                    "Handler": "handler",
                    "Script": files("trainway.monitoring").joinpath("tell_people.py").read_text("utf-8"),
                    "InputPayload": payload,
                },
            }
        ],
    }
