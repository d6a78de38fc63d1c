"""Evidence from Kubernetes objects, as `kubectl get … -o json` prints them: events and exit statuses.

Events about problems that a pod has overcome are left out: it was scheduled in the end, or its image was pulled.
https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#PodStatus (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trainway.explain.evidence import Evidence, Exit, JobEvent
from trainway.explain.shape import shaped, time

Object = Mapping[str, Any]

HEALTH_LABEL = "sagemaker.amazonaws.com/node-health-status"
"""HyperPod's label for the result of a node's health checks (read 2026-11-21).

https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-resiliency-node-labels.html
"""
_STATE = {
    "waiting": {"reason": str, "message": str},
    "running": dict,
    "terminated": {"reason": str, "message": str, "exitCode": int, "finishedAt": time},
}
_CONTAINERS = [{"state": _STATE, "lastState": _STATE}]
_ABOUT = {"kind": str, "name": str}
# The members that are read, of every kind.
_OBJECT = {
    "kind": str,
    "metadata": {"name": str, "labels": {"*": str}},
    "spec": {"nodeName": str},
    "status": {
        "phase": str,
        "reason": str,
        "message": str,
        "conditions": [{"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": time}],
        "initContainerStatuses": _CONTAINERS,
        "containerStatuses": _CONTAINERS,
    },
    "type": str,
    "reason": str,
    "message": str,
    "note": str,
    "involvedObject": _ABOUT,
    "regarding": _ABOUT,
    "source": {"host": str},
    "lastTimestamp": time,
    "eventTime": time,
    "firstTimestamp": time,
}
# Labels with a pod's index: of Kubernetes for an indexed Job, of JobSet, and of Kubeflow.
_INDEX_LABELS = (
    "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
)
# Reasons of events that no longer apply once a pod was scheduled, or once its containers started.
BEFORE_SCHEDULED = frozenset({"FailedScheduling", "Unschedulable"})
# The kubelet pulls an image after it has mounted the volumes and created the sandbox.
BEFORE_PULLED = frozenset({"FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox"})
BEFORE_STARTED = frozenset(
    {"Failed", "ErrImagePull", "ImagePullBackOff", "BackOff", "FailedMount", "FailedAttachVolume"}
    | {"FailedCreatePodSandBox", "CreateContainerConfigError", "CreateContainerError"}
)
# Condition types that report a problem if the status is True, and those that do if it is False.
_TROUBLE = frozenset(
    {"Failed", "FailureTarget", "Evicted", "Preempted", "DeactivationTarget", "BlockedOnPreemptionGates"}
)
_WANTED = frozenset({"QuotaReserved", "Active"})
# Reasons of a container's state that say nothing of a failure, or nothing that its exit status does not say.
FINE_REASONS = frozenset({"ContainerCreating", "PodInitializing", "CrashLoopBackOff", "Completed", "Error"})


def kubernetes_evidence(objects: Iterable[Object]) -> Evidence:
    """Return the evidence of pods, nodes, workloads, jobs, and events. Objects of other kinds are ignored."""
    items = [shaped(item, _OBJECT) for each in objects for item in _items(each)]
    pods = [item for item in items if item.get("kind") == "Pod"]
    got_over = {_name(pod): _got_over(pod) for pod in pods}
    # A pod that runs has overcome the problem of an earlier warning, for example a failed readiness probe.
    fine = {_name(pod) for pod in pods if _is_fine(pod)}
    events = [
        event
        for item in items
        if not (item.get("kind") == "Event" and (item.get("involvedObject") or {}).get("name") in fine)
        for event in _events_of(item)
        if event.reason not in got_over.get(event.subject.removeprefix("pod/"), frozenset())
    ]
    ended = {(pod.get("status") or {}).get("phase") for pod in pods}
    jobs = {_ended_well(item) for item in items if item.get("kind") not in ("Pod", "Node", "Event")}
    # Another pod can replace a pod that failed.
    failed = False if "Failed" in ended and not ended & {"Running", "Succeeded", "Pending"} else None
    return Evidence(
        events=tuple(events),
        exits=tuple(exit_ for pod in pods for exit_ in _exits(pod)),
        succeeded=True if ended == {"Succeeded"} or jobs - {None} == {True} else failed,
    )


def _items(document: Object) -> Iterator[Object]:
    kind = str(document.get("kind", ""))
    if kind.endswith("List") and "items" in document:
        for item in shaped(document["items"], [dict]):
            # kubectl prints lists of one kind without the kind of each item.
            yield {**item, "kind": item.get("kind") or kind.removesuffix("List")}
    else:
        yield document


def _events_of(item: Object) -> Iterator[JobEvent]:
    kind = item.get("kind")
    if kind == "Event":
        yield _event(item)
    elif kind == "Pod":
        yield from _pod_events(item)
    elif kind == "Node":
        yield from _node_events(item)
    else:
        # The conditions of a Kueue Workload, a JobSet, a Job, a TrainJob, or a PyTorchJob state its problems.
        yield from _condition_events(item)


def _event(item: Object) -> JobEvent:
    about = item.get("involvedObject") or item.get("regarding") or {}
    when = item.get("lastTimestamp") or item.get("eventTime") or item.get("firstTimestamp")
    source = item.get("source") or {}
    name = str(about.get("name", ""))
    kind = str(about.get("kind", "")).lower()
    return JobEvent(
        source="kubernetes",
        reason=str(item.get("reason", "")),
        message=str(item.get("message") or item.get("note") or ""),
        subject=f"{kind}/{name}" if kind else name,
        node=name if kind == "node" else source.get("host"),
        time=when,
        is_normal=item.get("type") == "Normal",
    )


def _pod_events(pod: Object) -> Iterator[JobEvent]:
    status: Object = pod.get("status") or {}
    subject, node = f"pod/{_name(pod)}", (pod.get("spec") or {}).get("nodeName")
    if status.get("reason"):
        yield JobEvent("kubernetes", status["reason"], status.get("message", ""), subject, node)
    for condition in status.get("conditions") or ():
        when = condition.get("lastTransitionTime")
        wanted = condition.get("type") == "DisruptionTarget" and condition.get("status") == "True"
        if wanted or (condition.get("type") == "PodScheduled" and condition.get("status") == "False"):
            reason = "FailedScheduling" if condition["type"] == "PodScheduled" else condition.get("reason", "")
            yield JobEvent("kubernetes", reason, condition.get("message", ""), subject, node, when)
    for container in _containers(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") and waiting["reason"] not in FINE_REASONS:
            yield JobEvent("kubernetes", waiting["reason"], waiting.get("message", ""), subject, node)
        for ended in _ended(container, fine=_is_fine(pod)):
            if ended.get("reason") and ended["reason"] not in FINE_REASONS:
                when = ended.get("finishedAt")
                yield JobEvent("kubernetes", ended["reason"], ended.get("message", ""), subject, node, when)


def _node_events(node: Object) -> Iterator[JobEvent]:
    name = _name(node)
    health = (node.get("metadata", {}).get("labels") or {}).get(HEALTH_LABEL)
    if health and health != "Schedulable":
        yield JobEvent("kubernetes", health, f"{HEALTH_LABEL}={health}", f"node/{name}", name)
    for condition in (node.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "Ready" and condition.get("status") != "True":
            reason = "NodeNotReady" if condition.get("status") == "False" else "NodeStatusUnknown"
            when = condition.get("lastTransitionTime")
            yield JobEvent("kubernetes", reason, condition.get("message", ""), f"node/{name}", name, when)


def _condition_events(item: Object) -> Iterator[JobEvent]:
    subject = f"{str(item.get('kind', '')).lower()}/{_name(item)}"
    for condition in (item.get("status") or {}).get("conditions") or ():
        reason, holds = str(condition.get("reason", "")), condition.get("status") == "True"
        if holds_trouble(str(condition.get("type")), reason, holds=holds):
            when = condition.get("lastTransitionTime")
            yield JobEvent("kubernetes", reason, condition.get("message", ""), subject, time=when)


def holds_trouble(kind: str, reason: str, *, holds: bool) -> bool:
    """Return whether a condition of a Workload, a queue, or a job reports a problem.

    apis/kueue/v1beta2/workload_types.go and clusterqueue_types.go of Kueue, and k8s.io/api/batch/v1/types.go of
    Kubernetes (read 2026-11-30)
    """
    if kind == "Finished":
        return holds and reason not in ("Succeeded", "JobFinished", "")
    return holds if kind in _TROUBLE else kind in _WANTED and not holds


def _ended_well(job: Object) -> bool | None:
    """Return whether a job succeeded, by its conditions, or None if it has not ended."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        kind, reason = condition.get("type"), str(condition.get("reason", ""))
        if condition.get("status") == "True" and kind in ("Complete", "Completed", "Succeeded", "Finished", "Failed"):
            return kind != "Failed" and not holds_trouble(kind, reason, holds=True)
    return None


def _exits(pod: Object) -> Iterator[Exit]:
    labels = (pod.get("metadata") or {}).get("labels") or {}
    index = next((int(labels[label]) for label in _INDEX_LABELS if str(labels.get(label, "")).isdigit()), None)
    for container in _containers(pod.get("status") or {}):
        for ended in _ended(container, fine=_is_fine(pod)):
            if ended.get("exitCode"):
                yield Exit(
                    status=ended["exitCode"],
                    name=f"pod/{_name(pod)}",
                    node=_name(pod) if index is None else f"node {index} ({_name(pod)})",
                    time=ended.get("finishedAt"),
                )


def _containers(status: Object) -> Iterator[Object]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _ended(container: Object, *, fine: bool) -> Iterator[Object]:
    """Yield the terminated states of a container. Omit `lastState` if the pod is fine."""
    for state in ("state",) if fine else ("state", "lastState"):
        if ended := (container.get(state) or {}).get("terminated"):
            yield ended


def _got_over(pod: Object) -> frozenset[str]:
    """Return the reasons of events that no longer apply."""
    status: Object = pod.get("status") or {}
    scheduled = any(
        each.get("type") == "PodScheduled" and each.get("status") == "True" for each in status.get("conditions") or ()
    )
    containers = list(status.get("containerStatuses") or ())
    started = bool(containers) and all(_has_run(each) for each in containers)
    return (BEFORE_SCHEDULED if scheduled else frozenset()) | (BEFORE_STARTED if started else frozenset())


def _is_fine(pod: Object) -> bool:
    status: Object = pod.get("status") or {}
    waiting = any("waiting" in (each.get("state") or {}) for each in _containers(status))
    return status.get("phase") in ("Running", "Succeeded") and not waiting


def _has_run(container: Object) -> bool:
    state: Object = container.get("state") or {}
    return bool("running" in state or "terminated" in state or container.get("lastState"))


def _name(item: Object) -> str:
    return str((item.get("metadata") or {}).get("name", ""))
