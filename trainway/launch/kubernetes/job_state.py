"""The state of a run, from what the API server says of its job, its pods, and its workload in the queue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.target.protocol import Phase, State

Object = Mapping[str, Any]

# The words of the kinds for one thing. Those of MPIJob are PyTorchJob's.
# https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/apis/trainer/v1alpha1/trainjob_types.go
# https://github.com/kubeflow/training-operator/blob/v1.9.0/pkg/apis/kubeflow.org/v1/common_types.go
# https://github.com/kubernetes-sigs/jobset/blob/v0.12.0/api/jobset/v1alpha2/jobset_types.go (JobSetConditionType)
# https://github.com/aws/sagemaker-hyperpod-cli/blob/main/src/sagemaker/hyperpod/cli/commands/training.py
# (all read 2026-11-21)
_SUCCEEDED = ("Complete", "Completed", "Succeeded")
_FAILED = ("Failed",)
_SUSPENDED = ("Suspended",)
# Reasons for which a container has no image. The kubelet tries again, with pauses of up to five minutes.
# https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff (read 2026-11-23)
_NO_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
# The label of a node's place among the job's pods, by who makes them: Jobs, Kubeflow's operators, StatefulSets.
_INDEX_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "apps.kubernetes.io/pod-index",
)


def job_state(job: Object | None, pods: Sequence[Object], workloads: Sequence[Object]) -> State:
    """Return the state of a job. `workloads` are the job's workloads in Kueue, and empty without Kueue."""
    if job is None:
        return State(Phase.GONE)
    conditions = _of_ray(job) if job.get("kind") == "RayJob" else _true_conditions(job)
    if job.get("status", {}).get("jobStatus") == "STOPPED":
        return State(Phase.STOPPED, "somebody stopped the job in Ray")
    for phase, words in ((Phase.SUCCEEDED, _SUCCEEDED), (Phase.FAILED, _FAILED)):
        for word in words:
            if word in conditions:
                return State(phase, _sentence(conditions[word]))
    nodes = tuple(pod["spec"].get("nodeName", "") for pod in sorted(pods, key=node_index))
    if "deletionTimestamp" in job["metadata"]:
        return State(Phase.STOPPED, "it saves a checkpoint and ends", nodes)
    phases = [pod.get("status", {}).get("phase") for pod in pods]
    if "Running" in phases and "Pending" not in phases:
        return State(Phase.RUNNING, nodes=nodes)
    if pods:
        reasons = [reason for pod in sorted(pods, key=node_index) if (reason := _waiting(pod))]
        phase, why = reasons[0] if reasons else (Phase.STARTING, "")
        return State(phase, why, nodes)
    for workload in workloads:
        if why := _not_admitted(workload):
            return State(Phase.QUEUED, why)
    if any(word in conditions for word in _SUSPENDED) and not workloads:
        return State(Phase.STOPPED, "it is suspended")
    return State(Phase.STARTING, "it has no pods yet")


def node_index(pod: Object) -> int:
    """Return the index, from 0, of a pod's node among the nodes of the run."""
    labels = pod["metadata"].get("labels", {})
    if node := labels.get("ray.io/node-type"):
        # https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/controllers/ray/utils/constant.go
        # (RayWorkerReplicaIndexKey, read 2026-11-23)
        return 0 if node == "head" else 1 + int(labels.get("ray.io/worker-group-replica-index", 0))
    named = next((labels[label] for label in _INDEX_LABELS if label in labels), None)
    last = named if named is not None else pod["metadata"]["name"].rpartition("-")[2]
    return int(last) if last.isdigit() else 0


def has_begun(pod: Object) -> bool:
    """Return whether the pod's container runs or ran, so that it has a log."""
    return any({"running", "terminated"} & status.get("state", {}).keys() for status in _containers(pod))


def restarts(pod: Object) -> int:
    """Return how often the container of a pod was restarted."""
    return sum(status.get("restartCount", 0) for status in _containers(pod))


def _containers(pod: Object) -> Sequence[Object]:
    statuses: Sequence[Object] = pod.get("status", {}).get("containerStatuses", ())
    return statuses


def _waiting(pod: Object) -> tuple[Phase, str] | None:
    """Return the phase of a pod that waits for a node or for its image, and why. None for any other pod."""
    for status in _containers(pod):
        if waiting := status.get("state", {}).get("waiting"):
            return Phase.STARTING, _no_image(pod, status, waiting) or _sentence(waiting)
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return Phase.QUEUED, _sentence(condition)
    return None


def _no_image(pod: Object, status: Object, waiting: Object) -> str:
    """Return that the node has no image for a container, and what to do. Empty if it waits for something else."""
    if waiting.get("reason") not in _NO_IMAGE:
        return ""
    node = pod["spec"].get("nodeName") or "its node"
    return (
        f"{node} cannot pull the image {status.get('image', '')}: {waiting.get('message') or waiting['reason']}."
        " Its GPUs wait meanwhile: `trainway stop` ends the run, and `trainway explain` says what to change"
    )


def _not_admitted(workload: Object) -> str:
    """Return why Kueue does not admit the job, or an empty text if it does.

    https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/apis/kueue/v1beta2/workload_types.go (read 2026-11-21)
    """
    conditions = {each["type"]: each for each in workload.get("status", {}).get("conditions", ())}
    if conditions.get("Admitted", {}).get("status") == "True":
        return ""
    reserved = conditions.get("QuotaReserved")
    return _sentence(reserved) if reserved else "Kueue has not looked at it yet"


def _true_conditions(job: Object) -> dict[str, Object]:
    conditions = job.get("status", {}).get("conditions") or ()
    return {each["type"]: each for each in conditions if each["status"] == "True"}


def _of_ray(job: Object) -> dict[str, Object]:
    """Return what KubeRay says of a RayJob, in the words of conditions, which a RayJob has none of.

    https://github.com/ray-project/kuberay/blob/v1.7.0/ray-operator/apis/ray/v1/rayjob_types.go (JobDeploymentStatus,
    read 2026-11-23)
    """
    status = job.get("status", {})
    words = {"Complete": "Complete", "Failed": "Failed", "ValidationFailed": "Failed", "Suspended": "Suspended"}
    word = words.get(status.get("jobDeploymentStatus", ""))
    return {word: {"reason": status.get("reason"), "message": status.get("message")}} if word else {}


def _sentence(said: Object) -> str:
    return ": ".join(part for part in (said.get("reason"), said.get("message")) if part)
