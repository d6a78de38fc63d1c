"""Read evidence from the responses of SageMaker HyperPod about clusters, nodes, and events.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeCluster.html
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceStatusDetails.html (both read 2026-11-30)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trainway.explain.evidence import Evidence, JobEvent
from trainway.explain.shape import shaped, time

HyperPodAnswer = Mapping[str, Any]
_TROUBLE = frozenset({"Failed", "RollingBack"})
# Members that identify a response of HyperPod among other documents.
_SIGNS = frozenset({"ClusterStatus", "ClusterNodeSummaries", "NodeDetails", "EventDetails"})
_NODE = {"InstanceId": str, "InstanceStatus": {"Status": str, "Message": str}}
_EVENT = {"ClusterName": str, "EventLevel": str, "InstanceId": str, "EventTime": time, "Description": str}
_ANSWER = {
    "ClusterName": str,
    "ClusterStatus": str,
    "FailureMessage": str,
    "ClusterNodeSummaries": [_NODE],
    "NodeDetails": _NODE,
    "Events": [_EVENT],
    "EventDetails": _EVENT,
}


def is_hyperpod(document: HyperPodAnswer) -> bool:
    """Return whether a document is a response of the HyperPod API."""
    events = document.get("Events")
    listed = isinstance(events, list) and any("ClusterName" in each for each in events if isinstance(each, dict))
    return listed or not _SIGNS.isdisjoint(document)


def hyperpod_evidence(answers: Sequence[HyperPodAnswer]) -> Evidence:
    """Return why a cluster failed, the nodes that failed, and the events that are errors.

    Events are kept for months. Of a cluster that is in service, only those of nodes that failed count.
    """
    answers = [shaped(answer, _ANSWER) for answer in answers]
    states = [event for answer in answers for event in _states(answer)]
    in_service = any(answer.get("ClusterStatus") == "InService" for answer in answers)
    failed = {event.node for event in states if event.node}
    events = [event for answer in answers for event in _errors(answer) if not in_service or event.node in failed]
    return Evidence(events=(*states, *events))


def _states(answer: HyperPodAnswer) -> Iterator[JobEvent]:
    cluster = f"cluster {answer.get('ClusterName', '')}".strip()
    said = answer.get("FailureMessage") or ""
    if said or answer.get("ClusterStatus") in _TROUBLE:
        yield JobEvent("hyperpod", str(answer.get("ClusterStatus", "Failed")), said, cluster)
    for node in (*answer.get("ClusterNodeSummaries", ()), *filter(None, [answer.get("NodeDetails")])):
        status = node.get("InstanceStatus") or {}
        if status.get("Status") == "Failure":
            name = str(node.get("InstanceId", ""))
            yield JobEvent("hyperpod", "Failure", status.get("Message") or "", f"node {name}", name)


def _errors(answer: HyperPodAnswer) -> Iterator[JobEvent]:
    for event in (*answer.get("Events", ()), *filter(None, [answer.get("EventDetails")])):
        if event.get("EventLevel") == "Error":
            node = event.get("InstanceId")
            about = f"node {node}" if node else f"cluster {event.get('ClusterName', '')}"
            when = event.get("EventTime")
            yield JobEvent("hyperpod", "Error", event.get("Description") or "", about, node, when)
