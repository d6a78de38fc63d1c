"""Tell people of an event of AWS: what happened, to which run, and what happens next.

The text of this file is also the script of the runbook that EventBridge starts. There, only the standard library and
boto3 exist.
https://docs.aws.amazon.com/systems-manager/latest/userguide/automation-action-executeScript.html (read 2026-11-23)
"""

from __future__ import annotations

import hashlib
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
# SageMaker can send several events for one change. Equal events of so many seconds are one.
SAME_SECONDS = 900
# The prefix of what was told, below which no job writes.
TOLD = "events/"
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
        "again": again_of(name, record, state.get("restarts")),
    }


def is_node(recorded: str, node: str) -> bool:
    """Return whether a recorded node, `name` or `name instance`, is an event's. HyperPod's names end with the ID."""
    return any(node == each or each.endswith(f"-{node}") for each in recorded.split(" "))


def again_of(name: str, record: Any, restarts: Any) -> list[str]:
    """Return a line of whether a run starts again by itself after it has lost a node, if that is known.

    `restarts` is the number that its job file allows. Slurm has no limit without one.
    """
    if restarts is None:
        is_slurm = (record.get("launch") or {}).get("target") == "slurm"
        return ["Slurm starts it again by itself when enough nodes are free."] if is_slurm else []
    if number_of(restarts):
        return [f"It starts again by itself when enough nodes are free. Its job file allows {restarts} restarts."]
    return [f"It does not start again by itself. Resume it with `trainway resume {name}`."]


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
        return [line, f"Newest checkpoint: step {step}, {location}.", *found["again"]]
    return [line, "It has recorded no checkpoint.", *found["again"]]


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


def is_first(s3: Any, bucket: str, key: str, message: str, at: float) -> bool:
    """Return whether a message is the first of equal events. `at` is the time of its event, in seconds.

    The object `key` has the ID of the message that tells of the event, so that the message is told again if it could
    not be told. S3 lets one of several conditional writes succeed.
    https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html (read 2026-12-01)
    """
    condition = {"IfNoneMatch": "*"}
    body = json.dumps({"message": message, "at": at})
    for _ in range(4):
        try:
            s3.put_object(Bucket=bucket, Key=key, Body=body, **condition)
            return True
        except s3.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (409, 412):
                raise
        found = s3.get_object(Bucket=bucket, Key=key)
        before = json.loads(found["Body"].read(MOST_BYTES))
        if before["message"] == message:
            return True
        if abs(at - before["at"]) < SAME_SECONDS:
            return False
        condition = {"IfMatch": found["ETag"]}
    return True


def is_told(
    client: Callable[[str], Any], settings: Any, sent: dict[str, Any], values: dict[str, str], at: float
) -> bool:
    """Return whether another message tells of an equal event. One that cannot be compared is not told yet."""
    same = settings["kinds"][sent["kind"]]["same"]
    equal = {name: value for name, value in values.items() if not same or name in same}
    digest = hashlib.sha256(json.dumps([sent["kind"], equal], sort_keys=True).encode()).hexdigest()
    try:
        return not is_first(client("s3"), settings["bucket"], f"{TOLD}{digest}.json", sent["message"], at)
    except Exception:  # whatever the bucket answers, twice is better than never
        return False


def tell(client: Callable[[str], Any], settings: Any, sent: dict[str, Any]) -> bool:
    """Publish the message of an event, and return whether it was published. It is not if it is nobody's, or told.

    `sent` has the `event`, its `kind`, and the ID of the `message`. An event of another cluster is nobody's, and so is
    a kind that the platform has no longer.
    """
    kind, event = settings["kinds"].get(sent["kind"]), sent["event"]
    if kind is None:
        return False
    values = values_of(event, kind["paths"])
    if kind["tagged"]:
        what, name = kind["tagged"]
        if name not in values or cluster_of(client, what, values[name]) != settings["platform"]:
            return False
    try:
        at = datetime.fromisoformat(event["time"].replace("Z", "+00:00")).timestamp()
    except (KeyError, ValueError):
        at = time.time()
    if is_told(client, settings, sent, values, at):
        return False
    lines: list[str] = []
    problem = ""
    if kind["node"] in values:
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
    return True


def handler(events: Any, _context: Any) -> dict[str, Any]:
    """Tell people of the events in the queue. An event that cannot be told stays there, and an alarm reports it.

    `events` has `platform`, `topic`, `queue`, `bucket`, and `prefixes` of the records of runs, and for each of the
    `kinds` of events `happened` and `next` in words, the `paths` of its values, the names of those that are the `same`
    in equal events, and the name of the value that is a `node`. With `tagged`, the name of the value that is an
    instance or an Auto Scaling group, an event of another cluster is nobody's. Returns the number of messages.
    """
    import boto3

    client: Any = boto3.client
    sqs, told, failures = client("sqs"), 0, []
    for message in waiting(sqs, events["queue"]):
        try:
            told += tell(client, events, json.loads(message["Body"]) | {"message": message["MessageId"]})
        except Exception as error:  # the other events must be told, too
            failures.append(f"{type(error).__name__}: {error}")
            # The next attempt of the step finds it.
            handle = message["ReceiptHandle"]
            sqs.change_message_visibility(QueueUrl=events["queue"], ReceiptHandle=handle, VisibilityTimeout=0)
            continue
        sqs.delete_message(QueueUrl=events["queue"], ReceiptHandle=message["ReceiptHandle"])
    if failures:
        raise RuntimeError(f"{len(failures)} events stay in the queue: {failures[0]}")
    return {"told": told}
