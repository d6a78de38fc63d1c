"""The nodes and jobs of a Kubernetes cluster that the caller may see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.gpu_use import GpuUse, gpu_use, mean, of_node
from trainway.launch.kubernetes.job_state import job_state, node_index
from trainway.launch.kubernetes.kubectl import items, kubectl, kubectl_json, resource_of
from trainway.launch.kubernetes.watch import JOB_UID
from trainway.launch.kubernetes.who_shares import RUN_LABEL
from trainway.launch.target.cluster_state import ClusterJob, ClusterNode, ClusterState, run_metrics
from trainway.launch.target.phase import OVER, Phase
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.errors import UsageError
from trainway.spec.facts.metrics_ports import RUN_METRICS_PORT
from trainway.spec.handoff import HandOff

Object = Mapping[str, Any]

_DEVICES = ("nvidia.com/gpu", "aws.amazon.com/neuron", "aws.amazon.com/neurondevice")
# A run's metrics are optional, so a request for them ends early.
_SOON = "--request-timeout=3s"


def cluster_state(hand_off: HandOff, user: str | None = None) -> ClusterState:
    """Return the state of the cluster. `user` is ignored, because kubectl needs no login name.

    What the caller may not see is left out, and a sentence in `unknown` says so. Raises UsageError if kubectl does not
    know the cluster.
    """
    del user
    context, unknown = ("--context", find_context(hand_off)), list[str]()
    uses: list[GpuUse] = []
    try:
        uses = gpu_use(hand_off)
    except UsageError as error:
        unknown.append(f"the use of the GPUs is unknown: {_why(error)}")
    jobs: list[ClusterJob] = []
    for namespace in hand_off.cluster.namespaces:
        try:
            jobs += _jobs(hand_off, (*context, "--namespace", namespace), namespace, uses)
        except UsageError as error:
            unknown.append(f"the jobs in {namespace} are unknown: {_why(error)}")
    try:
        nodes = items(kubectl_json(*context, "get", "nodes", what="the nodes cannot be seen"))
    except UsageError as error:
        return ClusterState((), tuple(jobs), (*unknown, f"the nodes are unknown: {_why(error)}"))
    try:
        question = ("get", "pods", "--all-namespaces", "--field-selector=status.phase!=Succeeded,status.phase!=Failed")
        allocated: Counter[str] | None = _allocated(items(kubectl_json(*context, *question, what="no pods")))
    except UsageError as error:
        allocated = None
        unknown.append(
            f"the allocated GPUs are unknown, because pods of other namespaces cannot be seen: {_why(error)}"
        )
    return ClusterState(tuple(_node(each, allocated, uses) for each in nodes), tuple(jobs), tuple(unknown))


def _node(node: Object, allocated: Mapping[str, int] | None, uses: Sequence[GpuUse]) -> ClusterNode:
    name, allocatable = str(node["metadata"]["name"]), node.get("status", {}).get("allocatable") or {}
    conditions = {each["type"]: each for each in node.get("status", {}).get("conditions") or ()}
    ready = conditions.get("Ready", {})
    state = "ready" if ready.get("status") == "True" else "not ready"
    if node.get("spec", {}).get("unschedulable"):
        state += ", cordoned"
    here = of_node(uses, name)
    return ClusterNode(
        name,
        state,
        group=node["metadata"].get("labels", {}).get(NODES_LABEL),
        # A node whose devices jobs claim (docs/devices.md) has none of these resources.
        gpus=sum(int(allocatable[each]) for each in _DEVICES if each in allocatable)
        if any(each in allocatable for each in _DEVICES)
        else None,
        allocated=None if allocated is None else allocated[name],
        used=mean(here),
        idle=sum(each.is_idle for each in here if each.pod) if here else None,
        reason="" if ready.get("status") == "True" else str(ready.get("message") or ready.get("reason") or ""),
    )


def _allocated(pods: Sequence[Object]) -> Counter[str]:
    """Return the devices that the pods on each node request."""
    counts: Counter[str] = Counter()
    for pod in pods:
        counts[str(pod["spec"].get("nodeName", ""))] += _devices(pod)
    return counts


def _devices(pod: Object) -> int:
    requests = [each.get("resources", {}).get("limits") or {} for each in pod["spec"].get("containers", ())]
    return sum(int(limits.get(device, 0)) for limits in requests for device in _DEVICES)


def _jobs(hand_off: HandOff, at: Sequence[str], namespace: str, uses: Sequence[GpuUse]) -> Iterator[ClusterJob]:
    """Yield the jobs of a namespace that have not ended."""
    what = f"the jobs of {namespace} cannot be seen"
    jobs = [
        {**job, "kind": kind}
        for kind in hand_off.cluster.job_kinds
        for job in items(kubectl_json(*at, "get", resource_of(kind), what=what))
        # Leave out objects that an operator creates for a job, such as the JobSet of a TrainJob. They also have the
        # labels of the run.
        if not job["metadata"].get("ownerReferences")
    ]
    if not jobs:
        return
    pods = items(kubectl_json(*at, "get", "pods", f"--selector={RUN_LABEL}", what=what))
    workloads = _workloads(at)
    for job in jobs:
        name = str(job["metadata"]["name"])
        mine = [pod for pod in pods if pod["metadata"]["labels"][RUN_LABEL] == name]
        queued = [each for each in workloads if _uid(each) == job["metadata"].get("uid")]
        found = job_state(job, mine, () if mine else queued)
        if found.phase in OVER:
            continue
        created = job["metadata"].get("creationTimestamp")
        pods_of_job = {str(pod["metadata"]["name"]) for pod in mine}
        its = [each for each in uses if each.namespace == namespace and each.pod in pods_of_job]
        yield ClusterJob(
            name,
            found.phase,
            {"namespace": namespace, "kind": str(job["kind"]), "name": name},
            team=dict(zip(hand_off.cluster.namespaces, hand_off.teams, strict=False)).get(namespace),
            reason=found.reason,
            nodes=tuple(each for each in found.nodes if each),
            gpus=sum(map(_devices, mine)) if any(map(_devices, mine)) else None,
            since=datetime.fromisoformat(created).timestamp() if created else None,
            metrics=_metrics(at, namespace, mine, name) if found.phase is Phase.RUNNING else None,
            used=mean(its),
            idle=sum(each.is_idle for each in its) if its else None,
        )


def _metrics(at: Sequence[str], namespace: str, pods: Sequence[Object], run: str) -> Mapping[str, float] | None:
    """Return the samples of the exporter on the run's first node, read through the API server, or None without any."""
    for pod in sorted(pods, key=node_index)[:1]:
        path = f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}:{RUN_METRICS_PORT}/proxy/metrics"
        try:
            return run_metrics(kubectl(*at, "get", f"--raw={path}", _SOON, what="no metrics"), run)
        except UsageError:
            return None
    return None


def _workloads(at: Sequence[str]) -> Sequence[Object]:
    """Return Kueue's workloads, or none if they cannot be read, for example because Kueue is not installed."""
    try:
        return items(kubectl_json(*at, "get", "workloads.kueue.x-k8s.io", what="no workloads"))
    except UsageError:
        return ()


def _uid(workload: Object) -> str | None:
    labels = workload["metadata"].get("labels") or {}
    return str(labels[JOB_UID]) if JOB_UID in labels else None


def _why(error: UsageError) -> str:
    return str(error).partition("why: ")[2].partition("\n")[0]
