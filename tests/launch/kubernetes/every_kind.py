"""A job of each kind on nodes of one instance type, and the pods that its operator makes of it."""

from __future__ import annotations

from typing import Any

from tests.launch.kubernetes.platforms import OPERATORS, hand_off_of, pods_of, request_on
from tests.launch.kubernetes.trainer import pod_template_of
from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.launch.kubernetes import Kind, KubernetesOptions, render_documents

PROGRAM = {"run": {"command": ["python", "train.py"]}}


def documents_of(kind: Kind, instance_type: str, sections: dict[str, Any], **changes: Any) -> list[dict[str, Any]]:
    """Return what a launch on two of three nodes submits. `sections` are those of the platform file."""
    groups = [{"name": "train", "instance_type": instance_type, "count": 3}]
    operators: dict[str, Any] = {"kubernetes": OPERATORS | sections.get("kubernetes", {})}
    if kind == "HyperPodPyTorchJob":
        operators = {"hyperpod": {"training_operator": True}, "orchestrator": "hyperpod-eks"}
    platform = platform_of(node_groups=groups, teams=[], **{**sections, **operators})
    changes = {**(PROGRAM if kind == "RayJob" else {}), **changes}
    return render_documents(request_on(hand_off_of(platform), **changes), CATALOGUE, KubernetesOptions(kind=kind))


def templates_of(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the templates of the pods that the operator of the last document makes."""
    _, *others, job = documents
    if job["kind"] == "TrainJob":
        return [pod_template_of(job, others)]
    if job["kind"] == "RayJob":
        cluster = job["spec"]["rayClusterSpec"]
        return [each["template"] for each in (cluster["headGroupSpec"], *cluster.get("workerGroupSpecs", ()))]
    return pods_of(job)
