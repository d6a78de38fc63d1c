"""Messages about events of AWS: a rule for each kind, and the runbook that makes the words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import service
from stacks.constructs.monitoring.alerts import Alerts
from trainway.monitoring.events import EventKind
from trainway.spec.derived.team_data import RECORDS
from trainway.spec.platform import Platform

# The newest of https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html
RUNTIME = "python3.11"
KIND = "EventKind"


class EventMessages(Construct):
    """Rules that start a runbook, which looks up the runs on a node and publishes to the topic of the alarms.

    A rule could publish by itself, and could not look up a run. A quote in a text of AWS would also break its template.
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
        role = iam.Role(self, "Role", assumed_by=service("ssm"))
        grant(role, *_permissions(kinds, bucket, prefixes, alerts))
        name = f"{platform.name}-events"
        payload = {
            "platform": platform.name,
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
            content=_content(platform, kinds, role, payload),
        )
        runbook_arn = regional_arn("ssm", f"automation-definition/{name}:$DEFAULT")
        starter = iam.Role(self, "StarterRole", assumed_by=service("events"))
        grant(
            starter,
            Permission(("ssm:StartAutomationExecution",), (runbook_arn,)),
            # Automation takes the role of the runbook.
            # https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-cwe-target.html (read 2026-11-23)
            Permission(
                ("iam:PassRole",),
                (role.role_arn,),
                conditions={"StringEquals": {"iam:PassedToService": "ssm.amazonaws.com"}},
            ),
        )
        for kind in kinds:
            values = "".join(f', "{each}": [<{each}>]' for each in kind.paths)
            rule = events.CfnRule(
                self,
                kind.name,
                description=f"Tells people of the platform {platform.name} of {kind.name}",
                event_pattern=dict(kind.pattern),
                targets=[
                    events.CfnRule.TargetProperty(
                        id="runbook",
                        arn=runbook_arn,
                        role_arn=starter.role_arn,
                        input_transformer=events.CfnRule.InputTransformerProperty(
                            input_paths_map=dict(kind.paths),
                            input_template=f'{{"{KIND}": ["{kind.name}"]{values}}}',
                        ),
                    )
                ],
            )
            rule.add_resource_dependency(runbook)
            needs_policies(rule, starter, role)


def _permissions(
    kinds: Sequence[EventKind], bucket: s3.IBucket, prefixes: Sequence[str], alerts: Alerts
) -> list[Permission]:
    found = [
        Permission(("sns:Publish",), (alerts.topic.topic_arn,)),
        Permission(("kms:Decrypt", "kms:GenerateDataKey"), (alerts.key.key_arn,)),
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
        "next": kind.next if isinstance(kind.next, str) else dict(kind.next),
        "node": kind.node,
        "tagged": list(kind.tagged or ()),
    }


def _content(platform: Platform, kinds: Sequence[EventKind], role: iam.Role, payload: dict[str, Any]) -> dict[str, Any]:
    values = {name: path for each in kinds for name, path in each.paths.items()}
    told = {name: {"type": "String", "description": f"{name} of the event", "default": ""} for name in sorted(values)}
    return {
        "schemaVersion": "0.3",
        "description": f"Tells people of the platform {platform.name} of events.",
        "assumeRole": role.role_arn,
        "parameters": {KIND: {"type": "String", "description": "Kind of the event"}, **told},
        "mainSteps": [
            {
                "name": "tell",
                "action": "aws:executeScript",
                "timeoutSeconds": 120,
                "maxAttempts": 3,
                "inputs": {
                    "Runtime": RUNTIME,
                    "Handler": "handler",
                    "Script": files("trainway.monitoring").joinpath("tell_people.py").read_text("utf-8"),
                    "InputPayload": {
                        **payload,
                        "kind": f"{{{{ {KIND} }}}}",
                        "values": {name: f"{{{{ {name} }}}}" for name in sorted(values)},
                    },
                },
            }
        ],
    }
