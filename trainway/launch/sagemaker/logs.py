"""What all nodes wrote: CloudWatch has a stream for each, and after a start again one more.

https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html has the names of the streams
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html (read 2026-11-21)
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from trainway.launch.sagemaker.api import client, explained
from trainway.launch.sagemaker.watch import state
from trainway.launch.target.protocol import OVER, Handle

GROUP = "/aws/sagemaker/TrainingJobs"
SECONDS_BETWEEN_LOOKS = 5.0
# The agent of shells has streams of its own, which end in /ssm.
_OF_A_NODE = re.compile(r"/algo-(?P<host>\d+)-(?P<started>\d+)$")
# How torchrun marks a line of a rank of its node; its own lines have no mark.
_OF_A_RANK = re.compile(r"^\[default(?P<rank>\d+)\]: ?(?P<text>.*)$")


def logs(handle: Handle, *, follow: bool) -> Iterator[str]:
    """Lines of all nodes, `[node local-rank] line`; those of torchrun have `-` for a rank.

    With `follow` until the run has ended.
    """
    cloudwatch = client("logs", handle["region"])
    read: dict[str, str] = {}
    while True:
        # Asked before the streams are read, so that what was written last is read as well.
        ended = not follow or state(handle).phase in OVER
        with explained(f"the logs of {handle['name']} cannot be read"):
            for node, stream in _streams(cloudwatch, handle["name"]):
                for line in _lines(cloudwatch, stream, read):
                    yield _marked(node, line)
        if ended:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _streams(cloudwatch: Any, name: str) -> list[tuple[int, str]]:
    """The nodes' streams, node by node, each in the order of their starts; none before the job's first line."""
    pages = cloudwatch.get_paginator("describe_log_streams").paginate(
        logGroupName=GROUP, logStreamNamePrefix=f"{name}/"
    )
    try:
        names = [stream["logStreamName"] for page in pages for stream in page["logStreams"]]
    except cloudwatch.exceptions.ResourceNotFoundException:
        # The first training job of an account makes the group.
        return []
    found = [(match, stream) for stream in names if (match := _OF_A_NODE.search(stream))]
    found.sort(key=lambda each: (int(each[0]["host"]), int(each[0]["started"])))
    return [(int(match["host"]) - 1, stream) for match, stream in found]


def _lines(cloudwatch: Any, stream: str, read: dict[str, str]) -> Iterator[str]:
    """What the stream has after what was `read` of it, which is where a token of CloudWatch's says."""
    while True:
        after = {"nextToken": read[stream]} if stream in read else {}
        page = cloudwatch.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True, **after)
        yield from (event["message"].rstrip("\n") for event in page["events"])
        # At the end of a stream the token is the one that it was asked with.
        if page["nextForwardToken"] == read.get(stream):
            return
        read[stream] = page["nextForwardToken"]


def _marked(node: int, line: str) -> str:
    of_rank = _OF_A_RANK.match(line)
    return f"[{node} {of_rank['rank']}] {of_rank['text']}" if of_rank else f"[{node} -] {line}"
