"""An event of AWS on the emulator becomes a message with what happened, to which run of whom, and what happens next."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from tests.delivery.test_failed_pipelines import BUCKET, deployable
from tests.emulator.conftest import Stack
from tests.synthesis import EXAMPLES, ROOT, Template, resources, templates_of
from training.observe import run_state
from training.observe.run_state import StateWriter
from trainway.launch.program.program import STARTER
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.state import state_key_of
from trainway.launch.runs.names import LONGEST_RUN_NAME, is_run_name
from trainway.monitoring.events import RESUMES, EventKind, event_kinds
from trainway.monitoring.tell_people import (
    RUN,
    SAME_SECONDS,
    SUBJECT_CHARACTERS,
    TOLD,
    cluster_of,
    is_first,
    is_node,
    is_told,
    lines_of,
    message_of,
    run_of,
    tell,
)
from trainway.spec.loader import load_platform

NODE = "i-0391f86fa0fe0d465"
# https://docs.aws.amazon.com/sagemaker/latest/dg/automating-sagemaker-with-eventbridge.html, less what no rule reads.
UNHEALTHY: dict[str, Any] = {
    "source": "aws.sagemaker",
    "detail-type": "SageMaker HyperPod Cluster Node Health Event",
    "detail": {
        "ClusterName": "commons",
        "ClusterArn": "arn:aws:sagemaker:us-west-2:123456789012:cluster/abcdefghijkl",
        "InstanceId": NODE,
        "HealthSummary": {
            "HealthStatus": "Unhealthy",
            "HealthStatusReason": 'HMA detected fault type "NvidiaErrorTerminate" on this node',
            "RepairAction": "Replace",
            "Recommendation": "Replace",
        },
    },
}
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-cluster-events-reference.html
FAILED: dict[str, Any] = {
    "source": "aws.sagemaker",
    "detail-type": "SageMaker HyperPod Cluster Event",
    "detail": {
        "EventDetails": {
            "EventId": "83ea0bb5-be77-45e8-a458-0a87f778a205",
            "ClusterName": "commons",
            "InstanceGroupName": "train",
            "InstanceId": "i-0000000000000ffff",
            "ResourceType": "Instance",
            "EventTime": 1748794825350,
            "EventLevel": "Error",
            "Description": "Instance creation in Cluster commons and InstanceGroup train failed",
        }
    },
}

LINES = [
    f'Node {NODE} is unhealthy: HMA detected fault type "NvidiaErrorTerminate" on this node',
    "",
    "Run: llama-1125 of team research, launched by ana, with 2 nodes. It is at step 700 of 1000.",
    "Newest checkpoint: step 650, fsx:/checkpoints/research/llama/650.",
    "",
    f"What happens next: HyperPod replaces the node. {RESUMES}",
]


@pytest.fixture(scope="module")
def observability() -> Template:
    return deployable(templates_of(ROOT / "examples/hyperpod-eks-shared.yaml")["observability"])


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


@pytest.fixture
def inbox(emulator: Emulator, observability: Template, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from messages(emulator, observability, monkeypatch)


@pytest.fixture
def inbox_of_eks(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    template = deployable(templates_of(ROOT / "examples/eks-p5.yaml")["observability"])
    yield from messages(emulator, template, monkeypatch)


def messages(emulator: Emulator, observability: Template, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Deploy the stack, and yield a function that returns the messages that its topic has sent since the last call."""
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    stack = Stack(emulator, boto3.client("cloudformation"))
    where: Any = {"LocationConstraint": emulator.region}
    boto3.client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration=where)
    stack.deploy(observability)
    (topic,) = [each["TopicArn"] for each in boto3.client("sns").list_topics()["Topics"]]
    sqs = boto3.client("sqs")
    queue = sqs.create_queue(QueueName="inbox")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    boto3.client("sns").subscribe(TopicArn=topic, Protocol="sqs", Endpoint=arn)

    def received() -> list[dict[str, Any]]:
        found = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
        for each in found:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=each["ReceiptHandle"])
        return [json.loads(each["Body"]) for each in found]

    yield received
    stack.delete()
    sqs.delete_queue(QueueUrl=queue)
    bucket = boto3.resource("s3").Bucket(BUCKET)
    bucket.objects.delete()
    bucket.delete()


def run_on(node: str, name: str) -> None:
    """Record a run as the launcher does, and its state as the job does."""
    # An earlier test may have had another emulator.
    run_state._client.cache_clear()
    record = RunRecord(name, "research", "ana", "2026-11-25T10:00:00+00:00", {"job.yaml": "name: llama\n"})
    boto3.client("s3").put_object(Bucket=BUCKET, Key=record.key, Body=record.as_text().encode())
    writer = StateWriter(f"s3://{BUCKET}/{state_key_of('research', name)}")
    writer.take("nodes", {"nodes": ["hyperpod-i-0aaaaaaaaaaaaaaaa", f"ip-10-1-0-7 {node}"]})
    writer.take("start", {"steps": 1000})
    writer.take("step", {"step": 700, "loss": 2.5, "step_seconds": 1.0})
    writer.take("checkpoint", {"step": 650, "location": "fsx:/checkpoints/research/llama/650", "every": 500})
    writer.close("running")


def test_the_death_of_a_node_is_told_with_its_run_its_owner_and_what_happens_next(
    emulator: Emulator, inbox: Any
) -> None:
    run_on(NODE, "llama-1125")
    run_on("i-0123456789abcdef0", "other-1125")
    emulator.send_event(UNHEALTHY)
    (message,) = inbox()
    assert message["Subject"].startswith(f"Trainway commons: Node {NODE} is unhealthy: HMA detected fault type")
    assert message["Message"].splitlines() == LINES
    emulator.send_event(FAILED | {"time": "2026-11-30T10:00:00Z"})
    (message,) = inbox()
    assert "Node i-0000000000000ffff of group train failed: Instance creation" in message["Message"]
    assert "It happened at 2026-11-30T10:00:00Z." in message["Message"].splitlines()
    assert "No run has recorded that it is on this node." in message["Message"]

    # A text of 600 characters, and values that are null.
    long = json.loads(json.dumps(FAILED).replace("failed", "failed: " + "x" * 600).replace('"train"', "null"))
    unnamed = json.loads(json.dumps(FAILED).replace('"i-0000000000000ffff"', "null"))
    undecided = json.loads(json.dumps(UNHEALTHY).replace('"RepairAction": "Replace"', '"RepairAction": null'))
    reason = long["detail"]["EventDetails"]["Description"]
    for told, words in (
        (long, f"Node i-0000000000000ffff of group (unknown) failed: {reason}"),
        (unnamed, "The HyperPod cluster reports an error: Instance creation"),
        (undecided, "HyperPod names the action (unknown)."),
    ):
        emulator.send_event(told)
        (message,) = inbox()
        assert words in message["Message"]

    healthy = json.loads(json.dumps(UNHEALTHY).replace('"Unhealthy"', '"Healthy"'))
    of_another = json.loads(json.dumps(UNHEALTHY).replace('"commons"', '"commons-2"'))
    informs = json.loads(json.dumps(FAILED).replace('"Error"', '"Info"'))
    for untold in (healthy, of_another, informs):
        emulator.send_event(untold)
    assert inbox() == []


def test_an_instance_that_cannot_be_launched_is_told_for_the_groups_of_the_cluster_only(
    emulator: Emulator, inbox_of_eks: Any
) -> None:
    auto_scaling = boto3.client("autoscaling")
    shape = {"LaunchConfigurationName": "nodes", "ImageId": "ami-0123456789abcdef0", "InstanceType": "p5.48xlarge"}
    auto_scaling.create_launch_configuration(**shape)
    for cluster in ("atlas", "theirs"):
        auto_scaling.create_auto_scaling_group(
            AutoScalingGroupName=f"eks-train-{cluster}",
            LaunchConfigurationName="nodes",
            MinSize=0,
            MaxSize=0,
            AvailabilityZones=["us-west-2a"],
            Tags=[{"Key": "eks:cluster-name", "Value": cluster, "PropagateAtLaunch": True}],
        )
        # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-event-reference.html
        reason = "Could not launch On-Demand Instances. InsufficientInstanceCapacity"
        detail = {"AutoScalingGroupName": f"eks-train-{cluster}", "StatusMessage": reason}
        emulator.send_event(
            {"source": "aws.autoscaling", "detail-type": "EC2 Instance Launch Unsuccessful", "detail": detail}
        )
    (message,) = inbox_of_eks()
    assert message["Message"].startswith(f"A node of eks-train-atlas could not be launched: {reason}")


def test_an_event_is_in_a_queue_for_fourteen_days_whose_alarm_rings() -> None:
    observability = templates_of(ROOT / "examples/hyperpod-eks-shared.yaml")["observability"]
    (queue,) = resources(observability, "AWS::SQS::Queue").values()
    assert queue["MessageRetentionPeriod"] == 14 * 24 * 60 * 60
    alarms = resources(observability, "AWS::CloudWatch::Alarm").values()
    (alarm,) = [each for each in alarms if each.get("MetricName") == "ApproximateNumberOfMessagesVisible"]
    assert alarm["Dimensions"] == [{"Name": "QueueName", "Value": queue["QueueName"]}]
    assert alarm["AlarmActions"]
    rules = resources(observability, "AWS::Events::Rule").values()
    targets = [each for rule in rules for each in rule["Targets"] if each["Id"] == "queue"]
    assert targets and all("<aws.events.event.json>" in each["InputTransformer"]["InputTemplate"] for each in targets)
    assert not any("InputPathsMap" in each["InputTransformer"] for each in targets), "no value is inserted by itself"


def kinds() -> dict[str, EventKind]:
    return {each.name: each for file in EXAMPLES for each in event_kinds(load_platform(file))}


@pytest.mark.parametrize("kind", list(kinds().values()), ids=lambda kind: kind.name)
def test_a_message_names_only_values_of_its_event(kind: EventKind) -> None:
    words = [
        text
        for each in (kind.happened, kind.next)
        for text in ([each] if isinstance(each, str) else each["words"].values())
    ]
    named = {name for each in words for name in re.findall(r"\{(\w+)\}", each)}
    assert named <= set(kind.paths) and (not kind.node or kind.node in kind.paths)
    assert kind.source.startswith("https://docs.aws.amazon.com/")


def test_an_event_that_cannot_be_told_stays_and_is_told_with_a_later_one(emulator: Emulator, inbox: Any) -> None:
    sqs, sns = boto3.client("sqs"), boto3.client("sns")
    (topic,) = [each["TopicArn"] for each in sns.list_topics()["Topics"]]
    (queue,) = [each for each in sqs.list_queues()["QueueUrls"] if each.endswith("/commons-events")]
    subscriptions = sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    sns.delete_topic(TopicArn=topic)
    emulator.send_event(UNHEALTHY)
    count = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])
    assert count["Attributes"] == {"ApproximateNumberOfMessages": "1"}
    sns.create_topic(Name=topic.rpartition(":")[2])
    for each in subscriptions:
        sns.subscribe(TopicArn=topic, Protocol=each["Protocol"], Endpoint=each["Endpoint"])
    emulator.send_event(FAILED)
    told = sorted(each["Message"].splitlines()[0].partition(":")[0] for each in inbox())
    assert told == ["Node i-0000000000000ffff of group train failed", f"Node {NODE} is unhealthy"]


def test_one_fault_is_told_once_and_another_action_or_a_later_fault_again(emulator: Emulator, inbox: Any) -> None:
    first = UNHEALTHY | {"id": "a", "time": "2026-12-01T10:00:00Z"}
    reason = json.loads(json.dumps(UNHEALTHY).replace("NvidiaErrorTerminate", "NvidiaNVLinkError"))
    rebooted = json.loads(json.dumps(UNHEALTHY).replace('"RepairAction": "Replace"', '"RepairAction": "Reboot"'))
    of_another = json.loads(json.dumps(UNHEALTHY).replace(NODE, "i-0aaaaaaaaaaaaaaaa"))
    for event in (
        first,
        reason | {"id": "b", "time": "2026-12-01T10:00:01Z"},
        rebooted | {"time": "2026-12-01T10:01:00Z"},
        of_another | {"time": "2026-12-01T10:02:00Z"},
        first | {"id": "c", "time": "2026-12-01T10:14:59Z"},
        first | {"id": "d", "time": "2026-12-01T10:15:00Z"},
    ):
        emulator.send_event(event)
    times = [line.split("T")[1] for each in inbox() for line in each["Message"].splitlines() if " happened at " in line]
    assert sorted(times) == ["10:00:00Z.", "10:01:00Z.", "10:02:00Z.", "10:15:00Z."]
    (queue,) = [each for each in boto3.client("sqs").list_queues()["QueueUrls"] if each.endswith("/commons-events")]
    count = boto3.client("sqs").get_queue_attributes(QueueUrl=queue, AttributeNames=["ApproximateNumberOfMessages"])
    assert count["Attributes"] == {"ApproximateNumberOfMessages": "0"}, "what is told already does not wait"


@pytest.mark.usefixtures("inbox")
def test_one_of_several_runbooks_at_once_tells_of_equal_events() -> None:
    s3 = boto3.client("s3")

    def claims(message: str, at: float) -> bool:
        return is_first(s3, BUCKET, f"{TOLD}fault.json", message, at)

    for at in (0.0, float(SAME_SECONDS)):
        with ThreadPoolExecutor(8) as runbooks:
            claimed = list(runbooks.map(lambda number: claims(f"message-{at}-{number}", at), range(8)))  # noqa: B023
        assert claimed.count(True) == 1
        winner = claimed.index(True)
        assert claims(f"message-{at}-{winner}", at), "a message that could not be told is told again"


@pytest.mark.usefixtures("inbox")
def test_an_event_that_cannot_be_compared_is_told() -> None:
    settings = {"bucket": "absent", "kinds": {"NodeUnhealthy": {"same": ["Node"]}}}
    sent = {"kind": "NodeUnhealthy", "message": "a"}
    client: Any = boto3.client
    assert not is_told(client, settings, sent, {"Node": NODE}, 0.0)


@pytest.mark.parametrize(
    "state",
    [
        [],
        {"nodes": 1},
        {"nodes": [NODE], "checkpoint": "x"},
        {"nodes": [NODE], "step": {}, "steps": []},
        {"nodes": [NODE], "checkpoint": {"step": 1, "location": "fsx:/a\nRun: b"}},
        {"nodes": [NODE, f"{NODE}\nRun: b"], "step": "\u202e"},
        "x" * 2_000_000,
    ],
    ids=["list", "number", "checkpoint", "step", "line", "name", "size"],
)
def test_a_run_is_told_whatever_another_job_has_written_as_its_state(
    state: Any, emulator: Emulator, inbox: Any
) -> None:
    run_on(NODE, "llama-1125")
    run_on(NODE, "other")
    for name in ("other", "no record", "../other"):
        boto3.client("s3").put_object(
            Bucket=BUCKET, Key=state_key_of("research", name), Body=json.dumps(state).encode()
        )
    emulator.send_event(UNHEALTHY)
    (message,) = inbox()
    assert message["Message"].splitlines() == LINES


@pytest.mark.parametrize(
    ("target", "restarts", "says"),
    [
        ("slurm", None, ["Slurm starts it again by itself when enough nodes are free."]),
        ("kubernetes", None, []),
        ("slurm", 3, ["It starts again by itself when enough nodes are free. Its job file allows 3 restarts."]),
        ("slurm", 0, ["It does not start again by itself. Resume it with `trainway resume mine`."]),
    ],
)
def test_a_message_says_whether_a_run_starts_again(target: str, restarts: int | None, says: list[str]) -> None:
    record = {"run": "mine", "owner": "ana", "launch": {"target": target}}
    state = {"nodes": [NODE]} | ({} if restarts is None else {"restarts": restarts})
    assert run_of("mine", record, state)["again"] == says
    assert lines_of(run_of("mine", record, state))[2:] == says


@pytest.mark.parametrize(
    "changes",
    [{"owner": "ana\nRun: b"}, {"owner": "a" * 2000}, {"owner": None}, {"team": ["a"]}, {"run": "other"}],
    ids=["line", "length", "nobody", "team", "run"],
)
def test_nothing_that_no_launch_writes_is_told_of_a_run(changes: dict[str, Any]) -> None:
    record = {"run": "llama-1125", "owner": "ana", "team": None}
    assert run_of("llama-1125", record, {"nodes": [NODE]})["owner"] == "ana"
    with pytest.raises(ValueError):
        run_of("llama-1125", record | changes, {"nodes": [NODE]})


def test_the_run_of_a_program_is_told(emulator: Emulator, inbox: Any, tmp_path: Path) -> None:
    record = RunRecord("mine", "research", "ana", "2026-11-25T10:00:00+00:00", {"job.yaml": "name: mine\n"})
    boto3.client("s3").put_object(Bucket=BUCKET, Key=record.key, Body=record.as_text().encode())
    told = {
        "TRAINWAY_RUN": str(tmp_path),
        "TRAINWAY_OUTPUT": str(tmp_path / "outputs"),
        "TRAINWAY_STATE": f"s3://{BUCKET}/{state_key_of('research', 'mine')}",
        "AWS_REGION": emulator.region,
        "NODE_NAME": f"hyperpod-{NODE}",
    }
    subprocess.run([sys.executable, STARTER, "--", "true"], env=os.environ | told, check=True)
    emulator.send_event(UNHEALTHY)
    (message,) = inbox()
    assert "Run: mine of team research, launched by ana, with 1 node." in message["Message"].splitlines()


def test_names_of_runs_are_those_of_the_launcher() -> None:
    for name in ("a", "llama-1125", "-a", "a-", "A", "a" * LONGEST_RUN_NAME, "a" * (LONGEST_RUN_NAME + 1), "a/b", ""):
        assert is_run_name(name) == bool(RUN.fullmatch(name)), name


def test_an_event_of_a_kind_that_the_platform_has_no_more_is_nobodys() -> None:
    settings = {"kinds": {}, "platform": "atlas"}
    tell(lambda name: pytest.fail(f"{name} is asked"), settings, {"kind": "SpotInterrupted", "event": {}})


def test_every_kind_is_on_the_page_and_the_page_has_no_other() -> None:
    page = (ROOT / "docs/events.md").read_text(encoding="utf-8")
    listed = {line.split("`")[1] for line in page.splitlines() if line.startswith("| `")}
    assert listed == {*kinds(), "CapacityBlock", "SpotInterrupted"}


def test_a_node_is_known_by_its_instance_however_the_target_names_it() -> None:
    assert is_node(f"hyperpod-{NODE}", NODE) and is_node(f"ip-10-1-0-7 {NODE}", NODE) and is_node(NODE, NODE)
    assert not is_node("ip-10-1-0-7", NODE) and not is_node(f"hyperpod-{NODE}0", NODE)


def test_a_message_is_one_that_sns_takes_and_is_sent_without_the_runs_too() -> None:
    event = {
        "platform": "atlas",
        "happened": "Node {Node} failed: {Reason}",
        "next": {"by": "Action", "words": {"Replace": "new", "": "{Action}?"}},
        "node": "Node",
        "values": {"Node": NODE, "Reason": "\t\x07ä" * 200 + "\nline", "Action": "Wait"},
    }
    subject, text = message_of(event, [], "AccessDenied")
    assert len(subject) == SUBJECT_CHARACTERS and subject.isascii() and subject.isprintable()
    assert "The runs on the node could not be looked up: AccessDenied" in text
    assert text.endswith("What happens next: Wait?")
    assert "(unknown)" in message_of(event | {"values": {"Node": NODE}}, [])[1]


def test_an_event_of_a_node_of_another_cluster_is_nobodys() -> None:
    class Answers:
        def describe_instances(self, Filters: list[dict[str, Any]]) -> Any:
            assert Filters[0]["Name"] == "instance-id"
            tags = [{"Key": "eks:cluster-name", "Value": "atlas"}] if Filters[0]["Values"] == [NODE] else []
            # An instance that is gone is in no answer.
            return {"Reservations": [{"Instances": [{"Tags": tags}]}] if tags else []}

        def describe_auto_scaling_groups(self, AutoScalingGroupNames: list[str]) -> Any:
            assert AutoScalingGroupNames == ["eks-train"]
            return {"AutoScalingGroups": []}

    assert cluster_of(lambda _: Answers(), "instance", NODE) == "atlas"
    assert cluster_of(lambda _: Answers(), "instance", "i-0123456789abcdef0") == ""
    assert cluster_of(lambda _: Answers(), "group", "eks-train") == ""
