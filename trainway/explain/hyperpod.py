"""Evidence from SageMaker HyperPod: the answers of DescribeCluster, ListClusterNodes, and ListClusterEvents.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceStatusDetails.html (both read 2026-11-30)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from trainway.explain.evidence import Evidence, JobEvent

Answer = Mapping[str, Any]
_TROUBLE = frozenset({"Failed", "RollingBack"})
# The names of members that the answers have, and no other document that is gathered.
_SIGNS = frozenset({"ClusterStatus", "ClusterNodeSummaries", "NodeDetails"})


def is_hyperpod(document: Answer) -> bool:
    """Return whether a document is one of the three answers."""
    events = document.get("Events")
    listed = isinstance(events, list) and any("ClusterName" in each for each in events if isinstance(each, dict))
    return listed or not _SIGNS.isdisjoint(document)


def hyperpod_evidence(answer: Answer) -> Evidence:
    """Return why a cluster failed, the nodes that failed, and the events that are errors."""
    return Evidence(events=tuple(_events(answer)))


def _events(answer: Answer) -> Iterator[JobEvent]:
    cluster = f"cluster {answer.get('ClusterName', '')}".strip()
    said = answer.get("FailureMessage") or ""
    if said or answer.get("ClusterStatus") in _TROUBLE:
        yield JobEvent("hyperpod", str(answer.get("ClusterStatus", "Failed")), said, cluster)
    for node in (*answer.get("ClusterNodeSummaries", ()), *filter(None, [answer.get("NodeDetails")])):
        status = node.get("InstanceStatus") or {}
        if status.get("Status") == "Failure":
            name = str(node.get("InstanceId", ""))
            yield JobEvent("hyperpod", "Failure", status.get("Message") or "", f"node {name}", name)
    for event in answer.get("Events", ()):
        if event.get("EventLevel") == "Error":
            node = event.get("InstanceId")
            about = f"node {node}" if node else f"cluster {event.get('ClusterName', '')}"
            time = _time(event.get("EventTime"))
            yield JobEvent("hyperpod", "Error", event.get("Description") or "", about, node, time)


def _time(value: Any) -> datetime | None:
    """Return a time in UTC. The AWS CLI writes text, or seconds since the epoch."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else value
