"""A line of HyperPod's health agent on Slurm reaches an inbox through the alarm that the cluster's stack deploys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.emulator.conftest import Stack
from tests.synthesis import ROOT, all_resources, templates_of

# As on AWS's page of the agent, of 2024, and without the event that a line has there:
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-health-monitoring-agent.html
FINDING = json.dumps(
    {
        "level": "info",
        "ts": "2024-08-21T18:35:35Z",
        "msg": "NPD caught event: %v",
        "details: ": {
            "severity": "warn",
            "timestamp": "2024-08-22T20:59:29Z",
            "reason": "XidHardwareFailure",
            "message": "Node condition NvidiaErrorReboot is now: True, reason: XidHardwareFailure",
        },
        "HealthMonitoringAgentDetectionEvent": "HealthEvent",
    }
)
OTHER = json.dumps({"level": "info", "ts": "2024-08-21T18:35:35Z", "msg": "Started"})
GROUP = "/aws/sagemaker/Clusters/borealis/abcdefghijkl"
STREAM = "SagemakerHealthMonitoringAgent/train/i-0391f86fa0fe0d465"


def of_alarm() -> dict[str, Any]:
    """Return the alarm of the example's templates, with its roles. The topic is another stack's."""
    (found,) = [
        (name, template)
        for name, template in templates_of(ROOT / "examples/hyperpod-slurm-p5en.yaml").items()
        if any(each["Type"] == "AWS::CloudWatch::LogAlarm" for each in template["Resources"].values())
    ]
    assert found[0] == "cluster"
    resources = {name: each for name, each in found[1]["Resources"].items() if name.startswith("AgentFinding")}
    assert {each["Type"] for each in resources.values()} == {
        "AWS::CloudWatch::LogAlarm",
        "AWS::IAM::Role",
        "AWS::IAM::Policy",
    }
    return resources


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def inbox(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Deploy the alarm on a log group with a topic, and yield a function that returns new messages."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    stack = Stack(emulator, boto3.client("cloudformation"))
    sns, sqs, logs = boto3.client("sns"), boto3.client("sqs"), boto3.client("logs")
    topic = sns.create_topic(Name="alerts")["TopicArn"]
    queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)
    resources = of_alarm()
    (name,) = [name for name, each in resources.items() if each["Type"] == "AWS::CloudWatch::LogAlarm"]
    properties = resources[name]["Properties"]
    assert "Fn::ImportValue" in properties["AlarmActions"][0]
    properties["AlarmActions"] = [topic]
    asked = properties["ScheduledQueryConfiguration"]["LogGroupIdentifiers"]
    assert json.dumps(asked).count("/aws/sagemaker/Clusters/borealis/") == 1
    text = json.dumps(resources)
    # The ID of the cluster, whose stack is not deployed here.
    id_of_cluster = json.dumps(asked[0]["Fn::Join"][1][-1])
    template = json.loads(text.replace(id_of_cluster, json.dumps(GROUP.rpartition("/")[2])))
    stack.deploy(template)
    logs.create_log_group(logGroupName=GROUP)
    logs.create_log_stream(logGroupName=GROUP, logStreamName=STREAM)

    def received() -> list[dict[str, Any]]:
        found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
        return [json.loads(json.loads(each["Body"])["Message"]) for each in found]

    yield received
    stack.delete()
    logs.delete_log_group(logGroupName=GROUP)


def written(line: str, at: datetime) -> None:
    event = {"timestamp": int(at.timestamp() * 1000), "message": line}
    boto3.client("logs").put_log_events(logGroupName=GROUP, logStreamName=STREAM, logEvents=[event])


def test_a_finding_of_the_agent_is_mailed_with_its_line_within_a_minute(emulator: Emulator, inbox: Any) -> None:
    now = datetime.now(UTC)
    written(OTHER, now)
    # The alarm runs its query once a minute.
    for minute in (0, 1):
        assert set(emulator.judge_alarms(now + timedelta(minutes=minute)).values()) == {"OK"}
    assert inbox() == []
    written(FINDING, now + timedelta(seconds=61))
    assert set(emulator.judge_alarms(now + timedelta(minutes=2)).values()) == {"ALARM"}
    (message,) = inbox()
    assert message["NewStateValue"] == "ALARM"
    assert (message["LogLines"], message["Contributors"]) == ([FINDING], STREAM)
    assert message["AlarmDescription"].startswith("HyperPod's health agent found a fault of a node.")
    # The next query finds the line again, and a later one does not.
    assert set(emulator.judge_alarms(now + timedelta(minutes=3)).values()) == {"ALARM"}
    assert inbox() == []
    assert set(emulator.judge_alarms(now + timedelta(minutes=5)).values()) == {"OK"}


def test_an_alarm_with_another_query_is_refused(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    resources = of_alarm()
    alarm = next(each["Properties"] for each in resources.values() if each["Type"] == "AWS::CloudWatch::LogAlarm")
    alarm |= {"AlarmActions": []}
    alarm["ScheduledQueryConfiguration"] |= {"LogGroupIdentifiers": [GROUP], "QueryString": "stats count(*) by bin(5m)"}
    alarm |= {"ActionLogLineRoleArn": "arn:aws:iam::123456789012:role/lines"}
    alarm["ScheduledQueryConfiguration"]["ScheduledQueryRoleARN"] = "arn:aws:iam::123456789012:role/query"
    template = {"Alarm": {"Type": "AWS::CloudWatch::LogAlarm", "Properties": alarm}}
    stack = Stack(emulator, boto3.client("cloudformation"))
    assert stack.deploy(template) == "ROLLBACK_COMPLETE"
    assert "evaluated with `filter @message like`" in stack.events("CREATE_FAILED")["Alarm"]


def test_an_alarm_on_logs_is_on_slurm_only() -> None:
    for file in ("platform.yaml", "examples/hyperpod-eks-shared.yaml"):
        assert not all_resources(templates_of(ROOT / file), "AWS::CloudWatch::LogAlarm")
