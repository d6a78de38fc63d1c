"""Calculate how long a deploy takes: what changes takes its time in the order of a first deploy.

`trainway plan` says the same of a platform that is not deployed yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.costs import is_resized, is_rolled, nodes_now, nodes_of
from trainway.diff.instance_groups import KIND
from trainway.spec.deployment import creation
from trainway.spec.deployment.creation import CreationStep, creation_steps, critical_path
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.kubernetes.addons import BEFORE_NODES, OBSERVABILITY, TASK_GOVERNANCE
from trainway.spec.platform import Platform

# The step of a first deploy that creates a resource of a type.
_STEPS: Final = {
    "AWS::EC2::NatGateway": creation.NETWORK,
    "AWS::EC2::VPCEndpoint": creation.NETWORK,
    "AWS::ECR::Repository": creation.REPOSITORIES,
    "AWS::EKS::Addon": creation.CLUSTER_ADDONS,
    "AWS::EKS::Cluster": creation.CONTROL_PLANE,
    "AWS::EKS::Nodegroup": creation.NODES,
    "AWS::FSx::FileSystem": creation.FILE_SYSTEM,
    "AWS::S3::Bucket": creation.BUCKET,
    "AWS::SageMaker::Cluster": creation.HYPERPOD,
    # The groups of a new HyperPod cluster are a part of it.
    KIND: creation.HYPERPOD,
}
_ADDONS: Final = {
    **dict.fromkeys(BEFORE_NODES, creation.NETWORKING_ADDONS),
    **dict.fromkeys((OBSERVABILITY, TASK_GOVERNANCE), creation.HYPERPOD_ADDONS),
}
_CHECKED: Final = "OnStartDeepHealthChecks"


def step_of(role: str, resource: Mapping[str, Any]) -> str | None:
    """Return the step of a first deploy that creates a resource, or None if that takes no time of its own.

    `role` is the name of the resource's stack without that of the platform. Stages of pipelines are no resources.
    """
    match resource.get("Type"):
        case "AWS::EKS::Addon":
            return _ADDONS.get(resource["Properties"]["AddonName"], creation.CLUSTER_ADDONS)
        case "AWS::EKS::Nodegroup" if role == "control-plane":
            return creation.SYSTEM_NODES
        case kind:
            return _STEPS.get(str(kind))


def minutes_of(role: str, each: ResourceDiff) -> int:
    """Return how many minutes a change takes at least, as far as that is known."""
    return _own_minutes(role, each) + _minutes_of_checks(each)


def minutes_of_deploy(
    changed: Iterable[tuple[str, ResourceDiff]],
    stages: Mapping[str, int],
    platform: Platform,
    catalogue: Catalogue,
) -> int:
    """Return how many minutes a deploy takes at least: the longest chain of steps in which something changes.

    `changed` are the roles of stacks with what changes in them, and `stages` the minutes of the pipelines' steps.
    """
    lasts = dict(stages)
    for role, each in changed:
        # What has no step, and changes of steps that this platform does not have, depend on nothing.
        step = step_of(role, each.after or each.before) or each.kind
        lasts[step] = max(lasts.get(step, 0), _own_minutes(role, each))
        if checks := _minutes_of_checks(each):
            lasts[creation.DEEP_HEALTH_CHECKS] = checks
    steps = [replace(step, minutes=lasts.pop(step.name, 0)) for step in creation_steps(platform, catalogue)]
    others = [CreationStep(name, (), took, published=False) for name, took in lasts.items()]
    return creation.minutes(critical_path([*others, *steps]))


def _own_minutes(role: str, each: ResourceDiff) -> int:
    """Return the minutes of a change without the health checks of new nodes."""
    known, step = creation.durations(), step_of(role, each.after or each.before)
    if step is None or each.action in (Action.DELETED, Action.IMPORTED):
        return 0
    if is_rolled(each):
        return known[step].minutes * (nodes_now(each) or 0)
    if each.kind == "AWS::EKS::Cluster" and any(edit.path == ("Version",) for edit in each.edits):
        return known[creation.NEXT_VERSION].minutes
    if each.kind == KIND:
        step = creation.NODES
    return known[step].minutes if _makes_anew(each) else 1


def _minutes_of_checks(each: ResourceDiff) -> int:
    is_checked = each.kind == KIND and _makes_anew(each) and _CHECKED in each.after.get("Properties", {})
    return creation.durations()[creation.DEEP_HEALTH_CHECKS].minutes if is_checked else 0


def _makes_anew(each: ResourceDiff) -> bool:
    """Return whether a change creates a resource, or further nodes of a group."""
    if each.action in (Action.CREATED, Action.REPLACED):
        return True
    before, after = nodes_now(each), nodes_of(each.after)
    return is_resized(each) and before is not None and after is not None and after > before
