"""Watch and control a training job: its state, its end, and a shell in one of its containers.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html (read 2026-11-21)
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from trainway.launch.sagemaker.api import client, described, explained
from trainway.launch.target.protocol import Handle, Phase, State
from trainway.spec.errors import usage_error

# By SecondaryStatus, of which there may be more one day; TrainingJobStatus then says whether it has ended.
_PHASES = {
    "Pending": Phase.QUEUED,
    "Interrupted": Phase.QUEUED,
    "Starting": Phase.STARTING,
    "LaunchingMLInstances": Phase.STARTING,
    "PreparingTrainingStack": Phase.STARTING,
    "Downloading": Phase.STARTING,
    "DownloadingTrainingImage": Phase.STARTING,
    "Restarting": Phase.STARTING,
    "Training": Phase.RUNNING,
    "Updating": Phase.RUNNING,
    "Uploading": Phase.RUNNING,
    "Stopping": Phase.RUNNING,
    "Completed": Phase.SUCCEEDED,
    "Failed": Phase.FAILED,
    "Stopped": Phase.STOPPED,
    "MaxRuntimeExceeded": Phase.STOPPED,
    "MaxWaitTimeExceeded": Phase.STOPPED,
}
_ENDED = {"Completed": Phase.SUCCEEDED, "Failed": Phase.FAILED, "Stopped": Phase.STOPPED}
# What SageMaker says of a job whose image is absent, or whose role may not pull it.
# https://github.com/aws/sagemaker-python-sdk/issues/57,
# https://github.com/aws-samples/amazon-sagemaker-tensorflow-object-detection-api/issues/14 (both read 2026-11-23)
_NO_IMAGE = re.compile(
    r"ClientError: (.*(?:Cannot pull algorithm container|manifest for \S+ not found|image not found).*)"
)
# What says itself, and needs no reason.
_PLAIN = ("Training", "Completed", "Stopped")


def state(handle: Handle) -> State:
    """Return the state of the run. Its nodes are the names of hosts, which the log streams have as well."""
    found = _described(handle)
    if found is None:
        return State(Phase.GONE)
    secondary = found["SecondaryStatus"]
    phase = _PHASES.get(secondary, _ENDED.get(found["TrainingJobStatus"], Phase.RUNNING))
    hosts = tuple(host_name(index) for index in range(_nodes(found))) if phase is Phase.RUNNING else ()
    return State(phase, _reason(found), hosts)


def stop(handle: Handle) -> None:
    """Stop the training job. SageMaker sends SIGTERM, and the ranks have two minutes to save a checkpoint."""
    with explained(f"{handle['name']} cannot be stopped"):
        sagemaker = client("sagemaker", handle["region"])
        found = described(sagemaker, handle["name"])
        if found is not None and found["TrainingJobStatus"] == "InProgress":
            sagemaker.stop_training_job(TrainingJobName=handle["name"])


def shell(handle: Handle, node: int) -> Sequence[str]:
    """Return the command that opens a shell in a node's container through Session Manager.

    Raises UsageError where the job does not run, not on so many nodes, or was launched without shells.
    https://docs.aws.amazon.com/sagemaker/latest/dg/train-remote-debugging.html (read 2026-11-21)
    """
    name, region = handle["name"], handle["region"]
    what = f"there is no shell on node {node} of {name}"
    found = _described(handle)
    if found is None or found["SecondaryStatus"] != "Training":
        status = "not known to SageMaker" if found is None else found["SecondaryStatus"]
        raise usage_error(what, why=f"it is {status}", fix="wait until it runs: `trainway status`")
    if not 0 <= node < _nodes(found):
        raise usage_error(what, why=f"it runs on {_nodes(found)} nodes", fix=f"name one from 0 to {_nodes(found) - 1}")
    if not found.get("RemoteDebugConfig", {}).get("EnableRemoteDebug"):
        allow = "--remote-debug-config EnableRemoteDebug=true"
        raise usage_error(
            what,
            why="it was launched without",
            fix=f"aws sagemaker update-training-job --region {region} --training-job-name {name} {allow}",
        )
    target = f"sagemaker-training-job:{name}_{host_name(node)}"
    return ("aws", "ssm", "start-session", f"--region={region}", f"--target={target}")


def host_name(node: int) -> str:
    """Return SageMaker's name of a node, by its index."""
    return f"algo-{node + 1}"


def _described(handle: Handle) -> dict[str, Any] | None:
    with explained(f"{handle['name']} cannot be looked at"):
        return described(client("sagemaker", handle["region"]), handle["name"])


def _nodes(found: Mapping[str, Any]) -> int:
    count: int = found.get("ResourceConfig", {}).get("InstanceCount", 1)
    return count


def _warm_pool(found: Mapping[str, Any]) -> str:
    """Return what became of the nodes that are kept for the next job. Empty if none are kept.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_WarmPoolStatus.html (read 2026-11-23)
    """
    pool = found.get("WarmPoolStatus", {})
    match pool.get("Status"):
        case "Available":
            return "its nodes are kept warm, and billed"
        case "InUse" | "Reused" if "ReusedByJob" in pool:
            return f"its warm nodes were taken by {pool['ReusedByJob']}"
        case "Terminated":
            return (
                f"its warm nodes are gone, after {pool.get('ResourceRetainedBillableTimeInSeconds', 0)} billed seconds"
            )
    return ""


def _reason(found: Mapping[str, Any]) -> str:
    """Return why the job failed, or else its secondary status, such as that SageMaker repairs the nodes."""
    if reason := found.get("FailureReason"):
        return _no_image(found, str(reason)) or str(reason)
    if pool := _warm_pool(found):
        return pool
    if found["SecondaryStatus"] in _PLAIN:
        return ""
    last = (found.get("SecondaryStatusTransitions") or [{}])[-1]
    return str(last.get("StatusMessage") or found["SecondaryStatus"])


def _no_image(found: Mapping[str, Any], reason: str) -> str:
    """Return that SageMaker has no image for the job, and what to do. Empty if the job failed for another reason."""
    if not (said := _NO_IMAGE.search(reason)):
        return ""
    image = found.get("AlgorithmSpecification", {}).get("TrainingImage", "")
    why = said[1].rstrip(". ")
    return f"SageMaker cannot pull the image {image}: {why}. `trainway explain` says what to change"
