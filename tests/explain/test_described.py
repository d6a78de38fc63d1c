"""Text that kubectl prints for people is read like its JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainway.explain import Evidence, Log, evidence_in, explain
from trainway.explain.described import read_descriptions

POD = """\
Name:             llama-8b-node-0-0-x7k2p
Namespace:        research
Node:             ip-10-0-16-7/10.0.16.7
Status:           {status}
Containers:
  node:
    State:          {state}
      Reason:       {reason}
    Last State:     Terminated
      Reason:       {last}
      Exit Code:    {code}
    Ready:          False
Events:
  Type     Reason            Age                From               Message
  ----     ------            ----               ----               -------
"""
PENDING = (
    "  Warning  FailedScheduling  40s (x2 over 2m)   default-scheduler  "
    "0/7 nodes are available: 7 Insufficient nvidia.com/gpu.\n"
)


def described(text: str) -> Evidence:
    return read_descriptions(Evidence((Log("describe.txt", text),)))


def test_a_warning_of_a_pod_is_an_event_with_its_line(tmp_path: Path) -> None:
    head = POD.format(status="Pending", state="Waiting", reason="ContainerCreating", last="Completed", code=0)
    (tmp_path / "describe.txt").write_text(head + PENDING)
    (first,) = explain(evidence_in(tmp_path))
    assert first.name == "too-few-gpus"
    assert "pod/llama-8b-node-0-0-x7k2p" in first.cause
    assert (first.quote.name, first.quote.line) == ("describe.txt", 16)


def test_what_a_pod_got_over_is_no_failure() -> None:
    head = POD.format(status="Running", state="Running", reason="", last="Completed", code=0)
    over = "  Normal   Scheduled         10s                default-scheduler  Successfully assigned research/x to y\n"
    assert [event for event in described(head + PENDING + over).events if not event.is_normal] == []
    assert explain(described(head + PENDING + over)) == ()


def test_the_last_state_of_a_container_is_its_end() -> None:
    head = POD.format(status="Running", state="Waiting", reason="CrashLoopBackOff", last="OOMKilled", code=137)
    evidence = described(head)
    assert [event.reason for event in evidence.events] == ["OOMKilled"]
    assert [exit_.status for exit_ in evidence.exits] == [137]
    assert explain(evidence)[0].name == "host-memory"


def test_a_table_of_kubectl_get_events_is_read() -> None:
    text = (
        "LAST SEEN   TYPE      REASON        OBJECT             MESSAGE\n"
        '2m          Warning   FailedMount   pod/llama-0-abc    MountVolume.SetUp failed for volume "lustre"\n'
    )
    (event,) = described(text).events
    assert (event.reason, event.subject, event.line) == ("FailedMount", "pod/llama-0-abc", 2)


def test_the_reason_why_a_workload_waits_in_kueue_is_read() -> None:
    text = """\
Name:         trainjob-llama-8b-1b2c3
Kind:         Workload
Status:
  Conditions:
    Last Transition Time:  2026-11-25T10:00:00Z
    Message:               {message}
    Observed Generation:   1
    Reason:                {reason}
    Status:                False
    Type:                  QuotaReserved
"""
    cases = {
        "quota-in-use": (
            "Pending",
            "couldn't assign flavors to pod set node: insufficient unused quota for nvidia.com/gpu in flavor p5, "
            "8 more needed",
        ),
        "quota-too-small": (
            "ExceedsMaxQuota",
            "couldn't assign flavors to pod set node: insufficient quota for nvidia.com/gpu in flavor p5, "
            "request > maximum capacity (128 > 64)",
        ),
        "kueue-preempts": (
            "WaitingForPreemptedWorkloads",
            "insufficient unused quota for nvidia.com/gpu in flavor p5, 8 more needed. "
            "Pending the preemption of 1 workload(s)",
        ),
        "kueue-topology": ("TopologyPlacementFailed", 'topology "default" doesn\'t allow to fit any of 2 pod(s)'),
        "queue-missing": ("Inadmissible", "LocalQueue research doesn't exist"),
    }
    for name, (reason, message) in cases.items():
        (first, *_) = explain(described(text.format(reason=reason, message=message)))
        assert first.name == name, message
        assert "workload/trainjob-llama-8b-1b2c3" in first.cause


def test_a_log_of_a_job_is_left_as_it_is() -> None:
    log = Log("job.out", "Normal step\nWarning: slow\n  Reason:  none\n")
    assert read_descriptions(Evidence((log,))).logs == (log,)


def test_the_last_status_in_tables_of_pods_and_nodes_is_read() -> None:
    tables = (
        "NAME    READY   STATUS    RESTARTS   AGE\n"
        "sft-0   1/1     Running   0          5s\n"
        "sft-1   0/1     ImagePullBackOff   0          5s\n"
        "NAME    READY   STATUS                RESTARTS      AGE\n"
        "sft-0   0/1     OutOfnvidia.com/gpu   2 (9s ago)    41s\n"
        "sft-1   1/1     Running               0             41s\n"
        "NAME     STATUS                        ROLES    AGE   VERSION\n"
        "node-7   NotReady,SchedulingDisabled   <none>   3d    v1.34.1\n"
    )
    told = [(event.subject, event.reason) for event in described(tables).events]
    assert told == [("pod/sft-0", "OutOfnvidia.com/gpu"), ("node/node-7", "NodeNotReady")]
    assert explain(described(tables))[0].name == "node-lost"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (
            'I1 event.go:33] Event(v1.ObjectReference{Kind:"Pod", Namespace:"ml", Name:"sft-0"}): '
            "type: 'Warning' reason: 'FailedScheduling' 0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
            "too-few-gpus",
        ),
        (
            '{"msg":"Event(v1.ObjectReference{Kind:\\"TFJob\\", Name:\\"j\\"}): type: \'Warning\' '
            'reason: \'FailedCreatePod\' Error creating: serviceaccount \\"x\\" not found"}',
            "object-missing",
        ),
        (
            "2024-04-08T09:11:20Z   2024-04-08T09:11:20Z   1   default-scheduler   Warning   FailedScheduling   "
            "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector.",
            "no-node-matches",
        ),
        (
            "Status:  Failed\nReason:  Evicted\nMessage: low on resource: memory\n",
            "host-memory",
        ),
        (
            'message: "0/3 nodes are available: 3 Insufficient cpu."\nreason: Unschedulable\nstatus: "False"\n'
            "type: PodScheduled\n",
            "too-little-of-the-node",
        ),
    ],
)
def test_each_form_of_an_event_is_read(line: str, name: str) -> None:
    evidence = described(line + "\n")
    assert evidence.events
    assert explain(evidence)[0].name == name


def test_a_workload_that_was_admitted_waits_no_more() -> None:
    events = (
        "  Normal  Pending        12m  kueue-admission  couldn't assign flavors to pod set main: insufficient unused "
        "quota for cpu in flavor a, 2 more needed\n"
        "  Normal  QuotaReserved  12m  kueue-admission  Quota reserved in ClusterQueue gpu\n"
    )
    assert explain(described(events)) == ()
