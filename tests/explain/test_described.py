"""Text that kubectl prints for people is read like its JSON."""

from __future__ import annotations

from pathlib import Path

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
    assert described(head + PENDING + over).events == ()


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
