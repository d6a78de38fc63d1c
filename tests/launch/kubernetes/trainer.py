"""The pods that Kubeflow Trainer and JobSet make of a TrainJob, as their sources say.

https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/core/trainingruntime.go
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/torch/torch.go
https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/builder.go
(all read 2026-11-21)
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

RESERVED = {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
# The fields of lists that a strategic merge patch joins by.
# https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/ (read 2026-11-21)
JOINED_BY = {
    "volumes": "name",
    "containers": "name",
    "volumeMounts": "mountPath",
    "env": "name",
    "replicatedJobs": "name",
}


def pod_template_of(train_job: dict[str, Any], runtimes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The template of each of its pods; fails where Trainer's webhook would refuse the job.

    `runtimes` are documents of which one is the runtime that the job refers to.
    """
    spec, trainer = train_job["spec"], train_job["spec"]["trainer"]
    (found,) = [
        each
        for each in runtimes
        if (each["kind"], each["metadata"]["name"]) == (spec["runtimeRef"]["kind"], spec["runtimeRef"]["name"])
    ]
    runtime = copy.deepcopy(found["spec"])
    template: dict[str, Any] = runtime["template"]["spec"]
    for patch in spec.get("runtimePatches", ()):
        assert "/" in patch["manager"]
        for each in patch["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]:
            for container in each["template"]["spec"]["template"]["spec"]["containers"]:
                assert container["name"] == "node" and "env" not in container
        template = merged(template, patch["trainingRuntimeSpec"]["template"]["spec"])
    (replicated,) = template["replicatedJobs"]
    pod: dict[str, Any] = replicated["template"]["spec"]["template"]
    (container,) = pod["spec"]["containers"]
    if "resourcesPerNode" in trainer:
        base = {key: container.get("resources", {}).get(key, {}) for key in ("limits", "requests")}
        both = {key: {**base[key], **trainer["resourcesPerNode"].get(key, {})} for key in base}
        container["resources"] = {key: value for key, value in both.items() if value}
    assert not RESERVED & {each["name"] for each in trainer["env"]}
    assert "torch" in runtime["mlPolicy"]
    first = f"{train_job['metadata']['name']}-node-0-0.{train_job['metadata']['name']}"
    index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    container |= {"image": trainer["image"], "command": trainer["command"]}
    container["env"] = [
        *trainer["env"],
        {"name": "PET_NNODES", "value": str(trainer["numNodes"])},
        {"name": "PET_NPROC_PER_NODE", "value": str(trainer["numProcPerNode"])},
        {"name": "PET_NODE_RANK", "valueFrom": index},
        {"name": "PET_MASTER_ADDR", "value": first},
        {"name": "PET_MASTER_PORT", "value": "29500"},
    ]
    return pod


def merged(source: Any, patch: Any, key: str = "") -> Any:
    """A strategic merge patch, of the fields that are patched here."""
    if isinstance(source, dict) and isinstance(patch, dict):
        both = source | {name: value for name, value in patch.items() if name not in source}
        return both | {name: merged(source[name], patch[name], name) for name in patch if name in source}
    if isinstance(source, list) and isinstance(patch, list) and key in JOINED_BY:
        name = JOINED_BY[key]
        there = {each[name]: each for each in source}
        joined = there | {each[name]: merged(there.get(each[name], {}), each) for each in patch}
        return list(joined.values())
    return patch
