"""Admission policies that limit the jobs of a team to the PriorityClasses of the platform.

Kubernetes lets a pod of every namespace have the class `system-node-critical`. The scheduler and the kubelet evict pods
of other teams and of DaemonSets for it. A ResourceQuota that counts pods of a class refuses none in a namespace without
the quota, unless the admission configuration of the API server limits the class. EKS has no setting for it.

Kueue takes the priority of a job from the templates of its pods, and preempts other jobs before there is a pod. The
policies therefore read the templates of each kind of job, besides the pods.

https://github.com/kubernetes/kubernetes/pull/76310 (release note)
https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default
https://github.com/kubernetes/kubernetes/blob/v1.35.0/pkg/kubelet/preemption/preemption.go (HandleAdmissionFailure)
https://kueue.sigs.k8s.io/docs/concepts/workload/#priority (all read 2026-11-29)
"""

from __future__ import annotations

import re
from typing import Any

from trainway.manifests.admission import policy, requests
from trainway.manifests.job_kinds import job_kinds
from trainway.manifests.priority_classes import priority_classes
from trainway.spec.platform import Platform

_POD = "spec.priorityClassName"
_JOB_SET = f"replicatedJobs[].template.spec.template.{_POD}"
_RAY_CLUSTER = (f"headGroupSpec.template.{_POD}", f"workerGroupSpecs[].template.{_POD}")
# Kueue prefers this class to those of the templates.
# https://github.com/kubernetes-sigs/kueue/blob/main/pkg/controller/jobs/mpijob/mpijob_controller.go (PriorityClass,
# read 2026-11-29)
_RUN_POLICY = "spec.runPolicy.schedulingPolicy.priorityClass"
# Where the objects that members can create name a class. [] is each element of a list, and {} each value of a map. A
# TrainJob names none, because its runtime does.
PATHS: dict[str, tuple[str, ...]] = {
    "jobs": (f"spec.template.{_POD}",),
    "jobsets": (f"spec.{_JOB_SET}",),
    "trainjobs": (),
    "trainingruntimes": (f"spec.template.spec.{_JOB_SET}",),
    "pytorchjobs": (f"spec.pytorchReplicaSpecs{{}}.template.{_POD}", _RUN_POLICY),
    "mpijobs": (f"spec.mpiReplicaSpecs{{}}.template.{_POD}", _RUN_POLICY),
    "rayclusters": tuple(f"spec.{each}" for each in _RAY_CLUSTER),
    "rayjobs": (f"spec.submitterPodTemplate.{_POD}", *(f"spec.rayClusterSpec.{each}" for each in _RAY_CLUSTER)),
    "hyperpodpytorchjobs": (f"spec.replicaSpecs[].template.{_POD}",),
}
_RUNTIMES = ("trainer.kubeflow.org", "trainingruntimes")
_RESERVED = "startsWith('system-')"
_NOT_RESERVED = "a team's pods can have no PriorityClass that begins with `system-`; name another one, or none"


def priority_guard(platform: Platform) -> list[dict[str, Any]]:
    """Return the policies and their bindings to the teams' namespaces. Empty without teams."""
    if not platform.teams:
        return []
    # A pod without a class gets the default class of the cluster, if an administrator has made one. So pods are only
    # kept from the reserved classes. No member can create a pod but by the kinds below.
    pods = f"!has(object.{_POD}) || !object.{_POD}.{_RESERVED}"
    found = policy("trainway-priority-pods", requests([""], ["pods"], ["CREATE"]), pods, _NOT_RESERVED)
    runtimes = [_RUNTIMES] if platform.kubernetes_or_default.trainer else []
    for group, plural in (*job_kinds(platform), *runtimes):
        if PATHS[plural]:
            found += _guard_of_kind(platform, group, plural)
    return found


def _guard_of_kind(platform: Platform, group: str, plural: str) -> list[dict[str, Any]]:
    """Return the policy of one kind of job. Run:ai creates classes of its own, whose names are not known here."""
    names = [each["metadata"]["name"] for each in priority_classes(platform)]
    if platform.run_ai:
        condition, message = f"!{{}}.{_RESERVED}", _NOT_RESERVED
    else:
        condition = f"{{}} in {['', *names]}"
        listed = f"no PriorityClass but {', '.join(names)}" if names else "no PriorityClass"
        message = f"a team's job can name {listed}, because queues decide which job runs first; remove the other one"

    def all_of(root: str) -> str:
        return " && ".join(_holds(root, path, condition) for path in PATHS[plural])

    return policy(
        f"trainway-priority-{plural}",
        requests([group], [plural], ["CREATE", "UPDATE"]),
        # An object from before the policy can still be stopped, and lose its finalizers.
        f"({all_of('object')}) || (request.operation == 'UPDATE' && !({all_of('oldObject')}))",
        message,
    )


def _holds(root: str, path: str, condition: str) -> str:
    """Return the CEL expression that is true if each value at the path is absent, or meets the condition."""
    fields, many, rest = re.fullmatch(r"([\w.]+)(\[\]|\{\})?\.?(.*)", path).groups()  # type: ignore[union-attr]
    steps = [root]
    for field in fields.split("."):
        steps.append(f"{steps[-1]}.{field}")
    there, last = " && ".join(f"has({step})" for step in steps[1:]), steps[-1]
    if many is None:
        return f"(!({there}) || {condition.format(last)})"
    element = "each" if many == "[]" else f"{last}[each]"
    return f"(!({there}) || {last}.all(each, {_holds(element, rest, condition)}))"
