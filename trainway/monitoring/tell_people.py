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
# Of each team. Any job of a team can write states.
MOST_RUNS = 200
# As in trainway/launch/runs/names.py.
RUN = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")
# As in trainway/launch/registry/state.py.
NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}( i-[0-9a-f]{8,17})?")
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
    """Yield what people want to know of each run that was on a node at a time, in seconds since the epoch.

    `node` is its name or the ID of its instance. Jobs write the objects, so what `run_of` refuses is left out, and the
    other runs are told.
    """
    s3 = client("s3")

    def read(key: str) -> Any:
        return json.loads(s3.get_object(Bucket=bucket, Key=key)["Body"].read(MOST_BYTES))

    for prefix in prefixes:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        found = [each for page in pages for each in page.get("Contents", []) if each["Key"].endswith(".state")]
        live = [each for each in found if at - each["LastModified"].timestamp() <= LIVE_SECONDS]
        for each in sorted(live, key=lambda each: each["LastModified"], reverse=True)[:MOST_RUNS]:
            name = each["Key"][len(prefix) :].removesuffix(".state")
            if not RUN.fullmatch(name) or each["Size"] > MOST_BYTES:
                continue
            try:
                state = read(each["Key"])
                if any(is_node(recorded, node) for recorded in nodes_of(state)):
                    yield run_of(name, read(f"{prefix}{name}.json"), state)
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError, s3.exceptions.NoSuchKey):
                continue


def nodes_of(state: Any) -> list[str]:
    """Return the nodes in a state that a job has written. Raises an error for what no run writes."""
    return [each for each in state.get("nodes", []) if NODE.fullmatch(each)]


def text_of(value: Any) -> str:
    """Return a text of a job as one line that people can read. Raises ValueError for any other value."""
    if not isinstance(value, str) or not value.isprintable() or len(value) > 1024:
        raise ValueError(f"it is no line of text: {type(value).__name__}")
    return value


def number_of(value: Any) -> int:
    """Return a number of a job. Raises ValueError for any other value."""
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"it is no number: {type(value).__name__}")
    return value


def run_of(name: str, record: Any, state: Any) -> dict[str, Any]:
    """Return what people are told of a run by its record and its state, of which a job can write anything.

    Raises an error for what no launch and no run writes.
    """
    if record["run"] != name:
        raise ValueError("the record is one of another run")
    step, steps, checkpoint = state.get("step"), state.get("steps"), state.get("checkpoint")
    return {
        "run": name,
        "team": text_of(record.get("team") or ""),
        "owner": text_of(record["owner"]),
        "nodes": len(nodes_of(state)),
        "step": None if step is None else number_of(step),
        "steps": None if steps is None else number_of(steps),
        "checkpoint": checkpoint and (number_of(checkpoint["step"]), text_of(checkpoint["location"])),
    }


def is_node(recorded: str, node: str) -> bool:
    """Return whether a recorded node, `name` or `name instance`, is an event's. HyperPod's names end with the ID."""
    return any(node == each or each.endswith(f"-{node}") for each in recorded.split(" "))


def lines_of(found: dict[str, Any]) -> list[str]:
    """Return what people want to know of a run on the node."""
    team = f" of team {found['team']}" if found["team"] else ""
    nodes = f"{found['nodes']} {'node' if found['nodes'] == 1 else 'nodes'}"
    line = f"Run: {found['run']}{team}, launched by {found['owner']}, with {nodes}."
    if found["step"] is not None:
        steps = "an unknown number" if found["steps"] is None else found["steps"]
        line += f" It is at step {found['step']} of {steps}."
    if found["checkpoint"]:
        step, location = found["checkpoint"]
        return [line, f"Newest checkpoint: step {step}, {location}."]
    return [line, "It has recorded no checkpoint."]


def message_of(events: Any, runs: list[str], problem: str = "") -> tuple[str, str]:
    """Return the subject and the text of a message. `runs` are the lines about the runs on the node."""
    values = {name: value for name, value in events["values"].items() if value}
    happened = words_of(events["happened"], values)
    lines = [happened, *runs]
    if problem:
        lines += ["", f"The runs on the node could not be looked up: {problem}"]
    elif events["node"] in values and not runs:
        lines += ["", "No run has recorded that it is on this node."]
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
