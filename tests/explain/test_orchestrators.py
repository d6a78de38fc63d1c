"""Each failure that an orchestrator reports is explained or quoted, and a report without a failure is neither."""

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
    probe = event("Unhealthy", "Liveness probe failed")
    assert told(tmp_path, pod("Running"), probe) == ()
    for other in (pod("Pending"), pod("Running", "jupyter-0")):
        assert [each.quote.text for each in told(tmp_path, other, probe)] == ["Unhealthy: Liveness probe failed"]
    assert told(tmp_path, pod("Pending"), event("Unhealthy", "Readiness probe failed: connection refused")) == ()


def test_a_failed_pod_is_a_failure_and_one_that_another_took_the_place_of_is_none(tmp_path: Path) -> None:
    (found,) = told(tmp_path, pod("Failed"))
    assert found.confidence is Confidence.UNKNOWN
    assert told(tmp_path, pod("Failed"), pod("Running", "sft-1")) == ()


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("pod didn't trigger scale-up: 1 max node group size reached", "group-at-its-maximum"),
        ("pod didn't trigger scale-up: 1 in backoff after failed scale-up", "scale-up-failed-before"),
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
    (tmp_path / "0.json").rename(tmp_path / "cluster.txt")
    assert told(tmp_path)[0].name == listed.name, "the name of a file is free"
    (tmp_path / "cluster.txt").unlink()
    (described,) = told(tmp_path, {"NodeDetails": node})[:1]
    assert described == listed
    one = {"ClusterName": "ml", "EventTime": 1764500000.5, "ResourceType": "Cluster"}
    events = [
        {**one, "EventLevel": "Info", "Description": "began"},
        {**one, "EventLevel": "Error", "Description": "flux"},
    ]
    (said,) = told(tmp_path, {"Events": events})
    assert (said.name, said.cause) == ("hyperpod-event", "HyperPod reported an error of cluster ml: flux")
    assert told(tmp_path, {"ClusterName": "ml", "ClusterStatus": "InService", "InstanceGroups": []}) == ()


def test_a_log_says_more_than_an_event_that_no_rule_knows(tmp_path: Path) -> None:
    traceback = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\nValueError: bad shape\n'
    (tmp_path / "sft-0.log").write_text(traceback)
    said = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "backoff limit"}
    job = {"kind": "Job", "metadata": {"name": "sft"}, "status": {"conditions": [said]}}
    assert "ValueError: bad shape" in told(tmp_path, job, pod("Failed"))[0].cause


def test_a_job_that_is_complete_had_no_failure(tmp_path: Path) -> None:
    killed = {"state": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T10:00:00Z"}}}
    complete = {"type": "Complete", "status": "True", "reason": "CompletionsReached"}
    job = {"kind": "Job", "metadata": {"name": "sft"}, "status": {"conditions": [complete]}}
    lost = pod("Failed", containerStatuses=[killed])
    assert told(tmp_path, job, lost, pod("Succeeded", "sft-1")) == ()
    assert told(tmp_path, {**job, "status": {}}, lost)[0].name == "host-memory"


def test_old_errors_of_a_cluster_in_service_are_overcome(tmp_path: Path) -> None:
    old = {"ClusterName": "ml", "InstanceId": "i-0b66516c4a8bfcea4", "EventLevel": "Error", "Description": "replaced"}
    assert [each.name for each in told(tmp_path, {"Events": [{**old, "EventTime": 1748794825350}]})] == [
        "hyperpod-event"
    ]
    assert told(tmp_path, {"Events": [old]}, {"ClusterName": "ml", "ClusterStatus": "InService"}) == ()


def test_nodes_that_had_begun_waited_for_one_that_was_lost(tmp_path: Path) -> None:
    gave_up = "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError\n"
    for name in ("node-0.log", "node-1.log"):
        (tmp_path / name).write_text(gave_up)
    assert explain(evidence_in(tmp_path))[0].name == "rendezvous-too-few-nodes"
    (tmp_path / "node-0.log").write_text(f"step=500 loss=1\n{gave_up}")
    assert explain(evidence_in(tmp_path))[0].name == "rendezvous-timeout"


def test_a_batch_script_names_the_command_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "slurm-90.out").write_text(
        "/var/spool/slurmd/job90/slurm_script: line 12: torchrun: command not found\n"
    )
    (found,) = explain(evidence_in(tmp_path))
    assert (found.name, "torchrun" in found.cause) == ("command-missing", True)


def test_a_pod_that_runs_has_overcome_its_last_end(tmp_path: Path) -> None:
    killed = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-11-28T10:00:00Z"}}
    running = {"state": {"running": {}}, "lastState": killed}
    waiting = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": killed}
    assert told(tmp_path, pod("Running", containerStatuses=[running])) == ()
    assert told(tmp_path, pod("Running", containerStatuses=[waiting]))[0].name == "host-memory"


@pytest.mark.parametrize(("reason", "names"), [("None", []), ("Resources", ["slurm-waits-for-nodes"])])
def test_a_job_that_slurm_has_not_looked_at_yet_has_no_finding(reason: str, names: list[str], tmp_path: Path) -> None:
    (tmp_path / "scontrol.txt").write_text(
        f"JobId=7 JobName=train\n   JobState=PENDING Reason={reason} Dependency=(null)\n"
    )
    assert [finding.name for finding in explain(evidence_in(tmp_path))] == names
