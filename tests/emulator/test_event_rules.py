"""EventBridge passes an input to the targets of a rule, and loses or queues an event that a target refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from emulator import Emulator

Client = Callable[[str], Any]
RUNBOOK = "arn:aws:ssm:us-west-2:123456789012:automation-definition/told:$DEFAULT"


def rule(client: Client, name: str, template: str, **target: Any) -> None:
    """Make a rule that passes the reason of an event to a target, in a template."""
    events = client("events")
    events.put_rule(Name=name, EventPattern=json.dumps({"source": [name]}))
    transformer = {"InputPathsMap": {"reason": "$.detail.reason"}, "InputTemplate": template}
    events.put_targets(Rule=name, Targets=[{"Id": "1", "InputTransformer": transformer, **target}])


def queue(client: Client, name: str) -> tuple[str, Callable[[], list[str]]]:
    """Make a queue. Return its ARN, and a function that returns the messages that arrived since the last call."""
    sqs = client("sqs")
    url = sqs.create_queue(QueueName=name)["QueueUrl"]

    def arrived() -> list[str]:
        found = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
        return [each["Body"] for each in found]

    return sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"], arrived


@pytest.mark.parametrize(
    ("detail", "passed"),
    [({"reason": "disk"}, '{"why": "disk"}'), ({"reason": None}, '{"why": null}'), ({}, '{"why": }')],
    ids=["a value", "null", "no value"],
)
def test_a_null_is_passed_as_the_word_null_and_an_absent_value_as_nothing(
    detail: dict[str, Any], passed: str, client: Client, emulator: Emulator
) -> None:
    arn, arrived = queue(client, "passed")
    rule(client, "words", '{"why": <reason>}', Arn=arn)
    emulator.send_event({"source": "words", "detail": detail})
    assert arrived() == [passed]


@pytest.mark.parametrize("reason", [None, "x" * 513], ids=["null", "513 characters"])
def test_an_event_that_automation_refuses_goes_to_the_queue_of_the_rule_or_is_lost(
    reason: str | None, client: Client, emulator: Emulator
) -> None:
    arn, arrived = queue(client, "refused")
    rule(client, "lost", '{"Reason": [<reason>]}', Arn=RUNBOOK, RoleArn="arn:aws:iam::123456789012:role/starter")
    emulator.send_event({"source": "lost", "detail": {"reason": reason}})
    assert arrived() == []
    rule(
        client,
        "kept",
        '{"Reason": [<reason>]}',
        Arn=RUNBOOK,
        RoleArn="arn:aws:iam::123456789012:role/starter",
        DeadLetterConfig={"Arn": arn},
    )
    emulator.send_event({"source": "kept", "detail": {"reason": reason}})
    assert arrived() == [json.dumps({"Reason": [reason]})]
