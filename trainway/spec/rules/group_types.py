"""Groups whose nodes may be of several instance types."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule
from trainway.spec.sections.orchestrator import Orchestrator

ALONE = "put it into a node group of its own"


@rule
def several_types_can_be_asked_for(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """HyperPod on EKS and EKS itself take the first available type, if nothing fixes it. No type is listed twice.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-scaling-eks.html, Flexible instance groups
    https://aws.amazon.com/about-aws/whats-new/2026/04/sagemaker-hyperpod-flexible-instance-groups/ (EKS only)
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html, capacity types
    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateCapacityReservation.html
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ReservedCapacityOffering.html (all read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        key: KeyPath = ("node_groups", index, "or_types")
        if group.or_types and platform.orchestrator is Orchestrator.HYPERPOD_SLURM:
            reason = "under Slurm, HyperPod makes a group of one instance type"
            yield key, reason, "make a node group of each type, or use the orchestrator hyperpod-eks"
        if group.or_types and not isinstance(group.capacity, str):
            reason = "what is reserved is of one instance type, and the group's nodes are all taken from it"
            yield key, reason, "leave it out, or buy on demand or on Spot"
        for number, name in enumerate(group.or_types):
            if name in group.instance_types[: number + 1]:
                yield (*key, number), "the group has this type already", "name each type once"


@rule
def several_types_serve_one_job(platform: Platform, catalogue: Catalogue) -> Iterator[Breach]:
    """A pod that asks for all of a node's devices fits on every node of the group, and so does its image.

    Under EKS the group's nodes are also launched from one template, which names every network interface.
    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html (read 2026-11-21)
    """
    for index, group in enumerate(platform.node_groups):
        if group.instance_type not in catalogue:
            continue  # reported by its own rule
        first = catalogue[group.instance_type]
        for number, name in enumerate(group.or_types):
            other = catalogue.get(name)
            key: KeyPath = ("node_groups", index, "or_types", number)
            if other is None:
                continue
            if other.architecture != first.architecture:
                reason = (
                    f"its processors are {other.architecture}, and an image for {first.name} is {first.architecture}"
                )
                yield key, reason, ALONE
            elif (other.devices, other.ranks) != (first.devices, first.ranks):
                reason = f"a job asks for all that a node has: {_job(other)}, and {_job(first)} on a {first.name}"
                yield key, reason, ALONE
            elif platform.orchestrator is Orchestrator.EKS and _launched(other) != _launched(first):
                reason = (
                    f"its network interfaces or disks are not those of a {first.name}, and one launch template has both"
                )
                yield key, reason, ALONE


def _job(instance: Instance) -> str:
    devices = " and ".join(f"{count} {name}" for name, count in instance.devices.items()) or "no devices"
    return f"{devices} for {instance.ranks} ranks"


def _launched(instance: Instance) -> tuple[object, ...]:
    """What the launch template says of a type: its interfaces, and whether it has disks to put together."""
    return instance.interfaces, instance.instance_store is None
