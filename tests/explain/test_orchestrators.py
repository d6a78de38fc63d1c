"""What an orchestrator says is known, or is quoted as it is, and what it says of no trouble is neither."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainway.explain import Confidence, Finding, evidence_in, explain


def told(directory: Path, *documents: dict[str, Any]) -> tuple[Finding, ...]:
    for number, document in enumerate(documents):
        (directory / f"{number}.json").write_text(json.dumps(document))
    return explain(evidence_in(directory))


def event(reason: str, message: str, kind: str = "Warning", time: str = "2026-11-28T10:00:00Z") -> dict[str, Any]:
    about = {"kind": "Pod", "name": "sft-0"}
    said = {"type": kind, "reason": reason, "message": message, "involvedObject": about, "lastTimestamp": time}
    return {"kind": "Event", **said}


def pod(phase: str, name: str = "sft-0", **status: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name}, "status": {"phase": phase, **status}}


def test_a_reason_that_no_rule_knows_is_quoted(tmp_path: Path) -> None:
    findings = told(
        tmp_path, event("Normalised", "first"), event("FluxExceeded", "no flux", time="2026-11-28T11:00:00Z")
    )
    (found,) = findings
    assert found.confidence is Confidence.UNKNOWN
    assert "pod/sft-0" in found.cause and found.quote.text == "FluxExceeded: no flux"


def test_normal_events_tell_of_no_failure(tmp_path: Path) -> None:
    assert told(tmp_path, event("Scheduled", "assigned", "Normal"), event("FluxSeen", "flux", "Normal")) == ()


def test_a_warning_about_a_pod_that_runs_is_overcome(tmp_path: Path) -> None:
    probe = event("Unhealthy", "Readiness probe failed")
    assert told(tmp_path, pod("Running"), probe) == ()
    assert [each.quote.text for each in told(tmp_path, pod("Pending"), probe)] == ["Unhealthy: Readiness probe failed"]


def test_a_failed_pod_is_a_failure_and_one_that_another_took_the_place_of_is_none(tmp_path: Path) -> None:
    (found,) = told(tmp_path, pod("Failed"))
    assert found.confidence is Confidence.UNKNOWN
    assert told(tmp_path, pod("Failed"), pod("Running", "sft-1")) == ()


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("pod didn't trigger scale-up: 1 max node group size reached", "group-at-its-maximum"),
        ("pod didn't trigger scale-up: 1 in backoff after failed scale-up", "too-few-gpus"),
    ],
)
def test_the_autoscaler_says_why_no_node_is_added(message: str, name: str, tmp_path: Path) -> None:
    few = "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."
    later = event("NotTriggerScaleUp", message, "Normal", "2026-11-28T12:00:00Z")
    findings = told(tmp_path, event("FailedScheduling", few), later)
    assert findings[0].name == name


def test_each_answer_of_hyperpod_is_read(tmp_path: Path) -> None:
    lifecycle = "Lifecycle scripts did not run successfully."
    status = {"Status": "Failure", "Message": lifecycle}
    node = {"InstanceGroupName": "train", "InstanceId": "i-0b66516c4a8bfcea4", "InstanceStatus": status}
    fine = {"InstanceId": "i-0fedcba9876543210", "InstanceStatus": {"Status": "Running"}}
    (listed,) = told(tmp_path, {"ClusterNodeSummaries": [fine, node]})[:1]
    assert (listed.name, listed.quote.node) == ("hyperpod-lifecycle-failed", "i-0b66516c4a8bfcea4")
    (described,) = told(tmp_path, {"NodeDetails": node})[:1]
    assert described == listed
    one = {"ClusterName": "ml", "EventTime": 1764500000.5, "ResourceType": "Cluster"}
    events = [
        {**one, "EventLevel": "Info", "Description": "began"},
        {**one, "EventLevel": "Error", "Description": "flux"},
    ]
    (said,) = told(tmp_path, {"Events": events})
    assert (said.name, said.cause) == ("hyperpod-says", "HyperPod says of cluster ml: flux")
    assert told(tmp_path, {"ClusterName": "ml", "ClusterStatus": "InService", "InstanceGroups": []}) == ()
