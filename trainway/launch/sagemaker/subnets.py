"""Subnets that a training job can start in: with enough addresses, and in the zone of its training plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.launch.program.request import Request
from trainway.launch.sagemaker.options import cannot
from trainway.spec.facts.instance import Instance

# "Training instances that don't use an Elastic Fabric Adapter (EFA) should have at least 2 private IP addresses.
# Training instances that use an EFA should have at least 5 private IP addresses."
# https://docs.aws.amazon.com/sagemaker/latest/dg/train-vpc.html (read 2026-11-23)
_ADDRESSES, _ADDRESSES_WITH_EFA = 2, 5


def usable_subnets(
    request: Request, instance: Instance, subnets: Sequence[str], training_plan: str | None, *, ec2: Any, sagemaker: Any
) -> list[str]:
    """Return those of the subnets that have addresses for all nodes, and the zone of the training plan if there is one.

    Raises UsageError if none is left.
    """
    described = {each["SubnetId"]: each for each in ec2.describe_subnets(SubnetIds=list(subnets))["Subnets"]}
    if training_plan is not None:
        zones = _zones_of_plan(training_plan, sagemaker)
        there = {name: each for name, each in described.items() if each["AvailabilityZone"] in zones}
        if zones and not there:
            have = ", ".join(sorted({each["AvailabilityZone"] for each in described.values()}))
            why = f"the training plan has its nodes in {', '.join(sorted(zones))}, and the job could start in {have}"
            fix = "add a node group in that zone to the platform file, or name another plan"
            raise cannot(request, why, fix)
        described = there if zones else described
    nodes = request.allocation.nodes
    needed = nodes * (_ADDRESSES_WITH_EFA if instance.efa_interfaces else _ADDRESSES)
    enough = [name for name in subnets if name in described and described[name]["AvailableIpAddressCount"] >= needed]
    if not enough:
        free = ", ".join(f"{name} {each['AvailableIpAddressCount']}" for name, each in sorted(described.items()))
        why = f"{nodes} nodes take {needed} addresses of a subnet, and these are free: {free}"
        raise cannot(request, why, "end other jobs, use fewer nodes, or name another node group with --group")
    return enough


def _zones_of_plan(training_plan: str, sagemaker: Any) -> set[str]:
    """Return the names of the zones of the plan's reserved capacity. A plan that has not begun may have none.

    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ReservedCapacitySummary.html (read 2026-11-23): its
    pattern admits names of zones, and not their IDs.
    """
    plan = sagemaker.describe_training_plan(TrainingPlanName=training_plan.rpartition("/")[2])
    reserved = plan.get("ReservedCapacitySummaries", ())
    return {each["AvailabilityZone"] for each in reserved if "AvailabilityZone" in each}
