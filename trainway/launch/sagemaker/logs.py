"""What all nodes wrote: CloudWatch has a stream for each, and after a start again one more.

https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html has the names of the streams
https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_GetLogEvents.html (read 2026-11-21)
"""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from trainway.launch.sagemaker.api import client, explained
from trainway.launch.sagemaker.watch import state
from trainway.launch.target.protocol import OVER, Handle
from trainway.launch.target.wanted_lines import EVERY_LINE, WantedLines

GROUP = "/aws/sagemaker/TrainingJobs"
SECONDS_BETWEEN_LOOKS = 5.0
_MOST_EVENTS = 10_000
# The agent of shells has streams of its own, which end in /ssm.
_OF_A_NODE = re.compile(r"/algo-(?P<host>\d+)-(?P<started>\d+)$")
# How the launcher of the ranks marks a line of a rank of its node; its own lines have no mark.
_OF_A_RANK = re.compile(r"^\[default(?P<rank>\d+)\]: ?(?P<text>.*)$")


def logs(handle: Handle, *, follow: bool, wanted: WantedLines = EVERY_LINE) -> Iterator[str]:
    """Yield the lines of all nodes as `[NODE LOCAL_RANK] LINE`. Those of their launcher have the rank `-`.

    With `follow` until the run has ended. The lines of a look are in the order of their times.
    """
    began = time.time()
    cloudwatch = client("logs", handle["region"])
    read: dict[str, str] = {}
    while True:
        # Asked before the streams are read, so that what was written last is read as well.
        ended = not follow or state(handle).phase in OVER
        with explained(f"the logs of {handle['name']} cannot be read"):
            streams = _wanted(_streams(cloudwatch, handle["name"]), wanted)
            of_streams = [_lines(cloudwatch, node, stream, read, wanted, began) for node, stream in streams]
            for _, node, line in heapq.merge(*of_streams, key=lambda each: each[0]):
                yield from wanted.of_processes([_marked(node, line)])
        if ended:
            return
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _streams(cloudwatch: Any, name: str) -> list[tuple[int, str]]:
    """Return the log streams of each node in the order of their starts. Empty before the first line of the job."""
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


def _wanted(streams: list[tuple[int, str]], wanted: WantedLines) -> list[tuple[int, str]]:
    """Return the streams of the chosen node and attempt. Each start of a node has a stream."""
    chosen = []
    for node, of_node in groupby(streams, key=lambda each: each[0]):
        starts = list(of_node)
        if wanted.node in (None, str(node)):
            chosen += starts if wanted.attempt is None else starts[wanted.attempt - 1 : wanted.attempt]
    return chosen


def _lines(
    cloudwatch: Any, node: int, stream: str, read: dict[str, str], wanted: WantedLines, began: float
) -> Iterator[tuple[int, int, str]]:
    """Yield what the stream has after what was `read` of it, which is where a token of CloudWatch's says.

    Each line comes with its time in milliseconds and its node. `began` is when the logs were asked for.
    """
    if stream not in read and wanted.tail is not None:
        yield from _last_lines(cloudwatch, node, stream, read, wanted.tail)
    since = {} if wanted.since_seconds is None else {"startTime": int((began - wanted.since_seconds) * 1000)}
    while True:
        after = {"nextToken": read[stream]} if stream in read else {}
        page = cloudwatch.get_log_events(logGroupName=GROUP, logStreamName=stream, startFromHead=True, **since, **after)
        yield from _told(node, page)
        # At the end of a stream the token is the one that it was asked with.
        if page["nextForwardToken"] == read.get(stream):
            return
        read[stream] = page["nextForwardToken"]


def _last_lines(
    cloudwatch: Any, node: int, stream: str, read: dict[str, str], count: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the last lines of a stream that was not read before. A request has at most 10,000 of them."""
    page = cloudwatch.get_log_events(
        logGroupName=GROUP, logStreamName=stream, startFromHead=False, limit=max(1, min(count, _MOST_EVENTS))
    )
    read[stream] = page["nextForwardToken"]
    if count:
        yield from _told(node, page)


def _told(node: int, page: Any) -> Iterator[tuple[int, int, str]]:
    for event in page["events"]:
        yield event["timestamp"], node, event["message"].rstrip("\n")


def _marked(node: int, line: str) -> str:
    of_rank = _OF_A_RANK.match(line)
    return f"[{node} {of_rank['rank']}] {of_rank['text']}" if of_rank else f"[{node} -] {line}"
