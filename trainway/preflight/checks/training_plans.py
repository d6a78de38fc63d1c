"""Training plans of SageMaker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from trainway.preflight.check import Inquiry
from trainway.preflight.checks.table import check
from trainway.preflight.finding import AccountFinding, error, warning
from trainway.preflight.reservations import hours_until, reserves_too_few, utc
from trainway.spec.problems import KeyPath
from trainway.spec.sections.capacity import TrainingPlan
from trainway.spec.sections.node_group import NodeGroup

TARGET: Final = "hyperpod-cluster"


@check("sagemaker:DescribeTrainingPlan")
def training_plans(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """Each training plan is for HyperPod, is active, and has the type, zone, and number of free instances needed."""
    groups = dict[str, list[tuple[KeyPath, NodeGroup]]]()
    for index, group in enumerate(inquiry.platform.node_groups):
        if isinstance(group.capacity, TrainingPlan):
            key: KeyPath = ("node_groups", index, "capacity", "training_plan")
            groups.setdefault(group.capacity.training_plan, []).append((key, group))
    for arn, sharing in groups.items():
        name = arn.rpartition("/")[2]
        absent = ["ResourceNotFound", "ResourceNotFoundException"]
        plan = inquiry.aws.ask("sagemaker", "describe_training_plan", TrainingPlanName=name, absent=absent)
        if plan is None:
            yield error(
                f"there is no training plan {name}",
                why=f"SageMaker lists none with this name for account {inquiry.aws.number} in {inquiry.aws.region}",
                fix="`aws sagemaker list-training-plans` lists those that the account has",
                key=sharing[0][0],
            )
            continue
        yield from _state(inquiry, plan, sharing[0][0])
        for key, group in sharing:
            yield from _capacity(inquiry, plan, group, key)
        yield from _free(inquiry, plan, sharing)


def _state(inquiry: Inquiry, plan: Mapping[str, Any], key: KeyPath) -> Iterator[AccountFinding]:
    name, status = plan["TrainingPlanName"], plan["Status"]
    if status in ("Pending", "Scheduled"):
        start = plan.get("StartTime")
        when = hours_until(inquiry.now, start) if start else "later"
        yield warning(
            f"the training plan {name} is {status.lower()}",
            why=f"HyperPod adds its nodes when it starts, {when}",
            fix="deploy now for all else, or wait",
            key=key,
        )
    elif status != "Active":
        yield error(
            f"the training plan {name} is {status.lower()}",
            why="HyperPod can add no nodes of it",
            fix="write the ARN of an active plan",
            key=key,
        )
    if TARGET not in plan.get("TargetResources", [TARGET]):
        yield error(
            f"the training plan {name} is for {' and '.join(plan['TargetResources'])}",
            why=f"HyperPod uses plans whose target is {TARGET}",
            fix=f"buy a plan with the target {TARGET}",
            key=key,
        )


def _capacity(inquiry: Inquiry, plan: Mapping[str, Any], group: NodeGroup, key: KeyPath) -> Iterator[AccountFinding]:
    reserved = plan.get("ReservedCapacitySummaries", [])
    types = {each["InstanceType"] for each in reserved}
    zones = {each["AvailabilityZoneId"] for each in reserved if "AvailabilityZoneId" in each}
    wanted, zone = inquiry.catalogue[group.instance_type].hyperpod_name, inquiry.platform.zone_of(group)
    if types and wanted not in types:
        yield error(
            f"the training plan {plan['TrainingPlanName']} is for {' and '.join(sorted(types))}",
            why=f"the nodes of {group.name} are {wanted}",
            fix="write the type of the plan, or another plan",
            key=key,
        )
    if zones and zone not in zones:
        yield error(
            f"the training plan {plan['TrainingPlanName']} is in {' and '.join(sorted(zones))}",
            why=f"the nodes of {group.name} are in {zone}",
            fix=f"write zone: {min(zones)} in the group, with this zone in `zones`",
            key=key,
        )
    assert isinstance(group.capacity, TrainingPlan)
    for name, said, api in (("start", group.capacity.start, "StartTime"), ("end", group.capacity.end, "EndTime")):
        real = plan.get(api)
        if said is not None and real is not None and utc(said) != utc(real):
            yield error(
                f"the training plan {plan['TrainingPlanName']} has its {name} at {utc(real)}",
                why=f"the file says {utc(said)}",
                fix=f"write {name}: {utc(real)}",
                key=(*key[:-1], name),
            )


def _free(
    inquiry: Inquiry, plan: Mapping[str, Any], groups: list[tuple[KeyPath, NodeGroup]]
) -> Iterator[AccountFinding]:
    total, needed = int(plan.get("TotalInstanceCount", 0)), sum(group.count for _, group in groups)
    free = int(plan.get("AvailableInstanceCount", total))
    key, who = groups[0][0], " and ".join(group.name for _, group in groups)
    if total < needed:
        yield error(
            f"the training plan {plan['TrainingPlanName']} has {total} instances",
            why=f"{who} have {needed} nodes",
            fix=f"write a count of {total} or less, or buy another plan",
            key=key,
        )
    elif plan["Status"] == "Active" and free < needed and not inquiry.is_deployed:
        yield error(
            f"of the {total} instances of the training plan {plan['TrainingPlanName']}, {free} are free",
            why=f"{who} have {needed} nodes",
            fix="remove the nodes of the cluster that uses the others",
            key=key,
        )
    if total >= needed:
        what = f"the training plan {plan['TrainingPlanName']}"
        yield from reserves_too_few(inquiry, what, total, groups, "buy a larger plan")
