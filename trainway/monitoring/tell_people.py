"""Tell people of an event of AWS: what happened, to which run, and what happens next.

The text of this file is also the script of the runbook that EventBridge starts. There, only the standard library and
boto3 exist.
https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html (read 2026-11-23)
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

# A run writes its state every half a minute. That of a node that has died may be the last one.
LIVE_SECONDS = 900
# A record has the files of its job.
MOST_BYTES = 1_000_000
# A subject of SNS has fewer than 101 characters of ASCII in one line.
# https://docs.aws.amazon.com/sns/latest/api/API_Publish.html (read 2026-11-25)
SUBJECT_CHARACTERS = 100
MESSAGE_CHARACTERS = 8000


def filled(words: str, values: dict[str, str]) -> str:
    """Return the words with the values of the event in place of `{name}`."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1]) or "(unknown)", words)


def words_of(words: Any, values: dict[str, str]) -> str:
    """Return the words for an event, with its values in them. Words that depend on a value are a dictionary."""
    if not isinstance(words, str):
        value, choices = values.get(words["by"], ""), words["words"]
        words = choices.get(value) or (choices.get("*") if value else None) or choices[""]
    return filled(words, values)


def cluster_of(client: Callable[[str], Any], kind: str, name: str) -> str:
    """Return the EKS cluster of an instance or of an Auto Scaling group by its tag.

    Returns "" for one that has none, or that is gone.
    """
    if kind == "instance":
        wanted = [{"Name": "instance-id", "Values": [name]}]
        found = client("ec2").describe_instances(Filters=wanted)["Reservations"]
        tagged = [each for reservation in found for each in reservation["Instances"]]
    else:
        tagged = client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[name])["AutoScalingGroups"]
    tags = [tag for each in tagged for tag in each.get("Tags", [])]
    return next((str(tag["Value"]) for tag in tags if tag["Key"] == "eks:cluster-name"), "")


def runs_on(
    client: Callable[[str], Any], bucket: str, prefixes: list[str], node: str, at: float
) -> Iterator[dict[str, Any]]:
    """Yield the record and the state of each run that was on a node at a time, in seconds since the epoch.

    `node` is its name or the ID of its instance. Jobs write the objects, so large ones are left out.
    """
    s3 = client("s3")
    for prefix in prefixes:
        for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
            small = {each["Key"]: each for each in page.get("Contents", []) if each["Size"] <= MOST_BYTES}
            for key, each in small.items():
                if not key.endswith(".state") or at - each["LastModified"].timestamp() > LIVE_SECONDS:
                    continue
                state = json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read())
                if any(is_node(name, node) for name in state.get("nodes", [])):
                    record = s3.get_object(Bucket=bucket, Key=key.removesuffix(".state") + ".json")
                    yield {"record": json.loads(record["Body"].read(MOST_BYTES)), "state": state}


def is_node(recorded: str, node: str) -> bool:
    """Return whether a recorded node, `name` or `name instance`, is an event's. HyperPod's names end with the ID."""
    return any(node == each or each.endswith(f"-{node}") for each in recorded.split(" "))


def lines_of(found: dict[str, Any]) -> list[str]:
    """Return what people want to know of a run on the node."""
    record, state = found["record"], found["state"]
    team = f" of team {record['team']}" if record.get("team") else ""
    line = f"Run: {record['run']}{team}, launched by {record['owner']}, with {len(state['nodes'])} nodes."
    if state.get("step") is not None:
        line += f" It is at step {state['step']} of {state.get('steps', 'an unknown number')}."
    checkpoint = state.get("checkpoint")
    if checkpoint:
        return [line, f"Newest checkpoint: step {checkpoint['step']}, {checkpoint['location']}."]
    return [line, "It has no complete checkpoint yet."]


def message_of(events: Any, runs: list[str], problem: str = "") -> tuple[str, str]:
    """Return the subject and the text of a message. `runs` are the lines about the runs on the node."""
    values = {name: value for name, value in events["values"].items() if value}
    happened = words_of(events["happened"], values)
    lines = [happened, *runs]
    if problem:
        lines += ["", f"The runs on the node could not be looked up: {problem}"]
    elif events["node"] in values and not runs:
        lines += ["", "No run of the training job has recorded that it is on this node."]
    if events.get("time"):
        lines += ["", f"It happened at {events['time']}."]
    lines += ["", f"What happens next: {words_of(events['next'], values)}"]
    subject = f"Trainway {events['platform']}: {happened}".splitlines()[0]
    subject = re.sub(r"[^ -~]", "?", subject)
    if len(subject) > SUBJECT_CHARACTERS:
        subject = subject[: SUBJECT_CHARACTERS - 3] + "..."
    return subject, "\n".join(lines)[:MESSAGE_CHARACTERS]


def notification_of(kind: str, subject: str, text: str) -> str:
    """Return the message for a URL. A channel of Slack gets it, too, which shows messages of this form only.

    https://docs.aws.amazon.com/chatbot/latest/adminguide/custom-notifs.html (read 2026-11-27)
    """
    happened, _, following = text.partition("What happens next: ")
    content = {
        "textType": "client-markdown",
        "title": subject,
        "description": happened.strip(),
        "nextSteps": [following],
    }
    return json.dumps({"version": "1.0", "source": "custom", "content": content, "metadata": {"eventType": kind}})


def values_of(event: Any, paths: dict[str, str]) -> dict[str, str]:
    """Return the values of an event at paths such as `$.detail.InstanceId`, without those that it lacks or has null."""
    found = {}
    for name, path in paths.items():
        value = event
        for part in path.split(".")[1:]:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            found[name] = str(value)
    return found


def waiting(sqs: Any, queue: str) -> Iterator[dict[str, Any]]:
    """Yield the messages in a queue, each once. EventBridge may send the first one only after it has started this.

    One message is received at a time, so that a step that runs out of time hides no others.
    """
    seen, seconds = set(), 20
    while found := sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=seconds).get("Messages"):
        (message,) = found
        if message["MessageId"] in seen:
            sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0)
            return
        seen.add(message["MessageId"])
        seconds = 0
        yield message


def tell(client: Callable[[str], Any], settings: Any, sent: dict[str, Any]) -> None:
    """Publish the message of an event, unless it is one of another cluster. `sent` has the event and its `kind`.

    A kind that the platform has no longer is nobody's, too.
    """
    kind, event = settings["kinds"].get(sent["kind"]), sent["event"]
    if kind is None:
        return
    values = values_of(event, kind["paths"])
    if kind["tagged"]:
        what, name = kind["tagged"]
        if name not in values or cluster_of(client, what, values[name]) != settings["platform"]:
            return
    lines: list[str] = []
    problem = ""
    if kind["node"] in values:
        try:
            at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
        except (KeyError, ValueError):
            at = time.time()
        try:
            for each in runs_on(client, settings["bucket"], settings["prefixes"], values[kind["node"]], at):
                lines += ["", *lines_of(each)]
        except Exception as error:  # whatever a job has written there, the event must be told
            problem = f"{type(error).__name__}: {error}"
    told = {"platform": settings["platform"], **kind, "values": values, "time": event.get("time", "")}
    subject, text = message_of(told, lines, problem)
    client("sns").publish(
        TopicArn=settings["topic"],
        Subject=subject,
        MessageStructure="json",
        Message=json.dumps({"default": text, "https": notification_of(sent["kind"], subject, text)}),
    )


def handler(events: Any, _context: Any) -> dict[str, Any]:
    """Tell people of the events in the queue. An event that cannot be told stays there, and an alarm reports it.

    `events` has `platform`, `topic`, `queue`, `bucket`, and `prefixes` of the records of runs, and for each of the
    `kinds` of events `happened` and `next` in words, the `paths` of the values in them, and the name of the value that
    is a `node`. With `tagged`, the name of the value that is an instance or an Auto Scaling group, an event of another
    cluster is nobody's. Returns the number of events.
    """
    import boto3

    client: Any = boto3.client
    sqs, told, failures = client("sqs"), 0, []
    for message in waiting(sqs, events["queue"]):
        try:
            tell(client, events, json.loads(message["Body"]))
        except Exception as error:  # the other events must be told, too
            failures.append(f"{type(error).__name__}: {error}")
            # The next attempt of the step finds it.
            handle = message["ReceiptHandle"]
            sqs.change_message_visibility(QueueUrl=events["queue"], ReceiptHandle=handle, VisibilityTimeout=0)
            continue
        sqs.delete_message(QueueUrl=events["queue"], ReceiptHandle=message["ReceiptHandle"])
        told += 1
    if failures:
        raise RuntimeError(f"{len(failures)} events stay in the queue: {failures[0]}")
    return {"told": told}
