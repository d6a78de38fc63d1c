"""Alarms that tell people of vulnerabilities in the training image."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aws_cdk import aws_events as events
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import service
from stacks.constructs.monitoring.alerts import Alerts
from stacks.constructs.monitoring.event_messages import EventMessages
from trainway.spec.sections.image import SEVERITIES, Severity

# The tags of promoted images begin so: trainway/delivery/images.py.
PROMOTED = "promoted-"


class ScanAlarm(Construct):
    """Two rules that send findings of scans of a repository's images to the topic of the platform's alarms.

    One rule takes the result of a scan after a push. The other takes what Inspector finds later in an image with the
    tag `tag`, or in a promoted one; it has no event where the registry has basic scanning. Both take findings of the
    severity, and worse ones.

    What the topic does not take for a day goes to the queue of events that were not told, which has an alarm.

    The rules publish with a role. A policy of the topic that lets EventBridge in can have no condition, and would let
    in the rules of every account.
    https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-use-resource-based.html (read 2026-11-23)
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: str,
        repository: str,
        tag: str,
        severity: Severity,
        alerts: Alerts,
        messages: EventMessages,
    ) -> None:
        super().__init__(scope, id)
        self._alerts, self._messages = alerts, messages
        self.rules: list[events.CfnRule] = []
        self._role = iam.Role(self, "Role", assumed_by=service("events"))
        grant(
            self._role,
            Permission(("sns:Publish",), (alerts.topic.topic_arn,)),
            Permission(("kms:Decrypt", "kms:GenerateDataKey"), (alerts.key.key_arn,)),
        )
        worse = SEVERITIES[: SEVERITIES.index(severity) + 1]
        arn = regional_arn("ecr", f"repository/{repository}")
        remedy = "`trainway image status` shows all. A later day as image.refresh brings updates of Ubuntu's packages."
        self._rule(
            "AfterPush",
            f"A scan of a new image in {repository} found what is {severity} or worse",
            pattern_of_scans(repository, arn, worse),
            {"digest": "$.detail.image-digest"},
            f"Trainway {platform}: the scan of {repository}@<digest> found vulnerabilities that are {severity} or "
            f"worse. {remedy}",
        )
        self._rule(
            "Later",
            f"Inspector found what is {severity} or worse in an image of {repository}",
            pattern_of_findings(repository, tag, worse),
            {"title": "$.detail.title", "level": "$.detail.severity"},
            f"Trainway {platform}: the image in {repository} has a vulnerability: <title> (<level>). {remedy}",
        )

    def _rule(
        self, id: str, description: str, pattern: Mapping[str, Any], paths: Mapping[str, str], message: str
    ) -> None:
        transformer = events.CfnRule.InputTransformerProperty(
            input_paths_map=dict(paths), input_template=json.dumps(message)
        )
        target = events.CfnRule.TargetProperty(
            id="alarms",
            arn=self._alerts.topic.topic_arn,
            role_arn=self._role.role_arn,
            input_transformer=transformer,
            dead_letter_config=events.CfnRule.DeadLetterConfigProperty(arn=self._messages.queue.queue_arn),
        )
        rule = events.CfnRule(self, id, description=description, event_pattern=pattern, targets=[target])
        needs_policies(rule, self._role)
        self._messages.let_send(rule)
        self.rules.append(rule)


def pattern_of_scans(repository: str, arn: str, severities: tuple[Severity, ...]) -> dict[str, Any]:
    """Return the pattern of the scans of a repository's images that found something of the severities.

    ECR sends the event of basic scanning, and Inspector that of enhanced scanning, which has the repository's ARN.
    A severity without findings is not in the event. EventBridge takes some `$or` for the name of a field, so one choice
    stands without it:
    https://github.com/aws/event-ruler/blob/main/README.md (read 2026-11-23)
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/ecr-eventbridge.html
    https://docs.aws.amazon.com/AmazonECR/latest/userguide/image-scanning-enhanced-events.html (read 2026-11-23)
    """
    found = [{"finding-severity-counts": {each.upper(): [{"numeric": [">", 0]}]}} for each in severities]
    return {
        "source": ["aws.ecr", "aws.inspector2"],
        "detail-type": ["ECR Image Scan", "Inspector2 Scan"],
        "detail": {"repository-name": [repository, arn], **(found[0] if len(found) == 1 else {"$or": found})},
    }


def pattern_of_findings(repository: str, tag: str, severities: tuple[Severity, ...]) -> dict[str, Any]:
    """Return the pattern of Inspector's findings of the severities in an image with the tag, or in a promoted image.

    https://docs.aws.amazon.com/inspector/latest/user/eventbridge-integration.html (read 2026-11-23)
    """
    image = {"repositoryName": [repository], "imageTags": [{"prefix": tag}, {"prefix": PROMOTED}]}
    return {
        "source": ["aws.inspector2"],
        "detail-type": ["Inspector2 Finding"],
        "detail": {
            "severity": [each.upper() for each in severities],
            "status": ["ACTIVE"],
            "resources": {"details": {"awsEcrContainerImage": image}},
        },
    }
