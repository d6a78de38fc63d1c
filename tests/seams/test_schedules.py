"""Calls that EventBridge Scheduler makes at a time, read by the model of the API that it calls."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from emulator.errors import ResourceError
from emulator.services.clock import universal_arguments
from tests.seams.resolved import deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import platforms, some_and_all_platforms
from tests.service_model import problems as request_problems
from tests.service_model import service_model
from trainway.spec.capacity.capacity_times import capacity_times
from trainway.spec.platform import Platform

Properties = dict[str, Any]
SHAPE = "capacity-with-times"
# https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html, and ScheduleExpression in
# https://docs.aws.amazon.com/scheduler/latest/APIReference/API_CreateSchedule.html (botocore 1.44.5, read 2026-11-22)
UNIVERSAL = re.compile(r"arn:aws:scheduler:::aws-sdk:([a-z0-9]+):([a-z]\w+)")
ONCE = re.compile(r"at\((\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\)")


def time_of(schedule: Properties) -> datetime:
    """Return the time in UTC at which a schedule makes its call. Raises ValueError for another expression."""
    found = ONCE.fullmatch(schedule["ScheduleExpression"])
    if not found or schedule["ScheduleExpressionTimezone"] != "UTC":
        raise ValueError(
            f"{schedule['ScheduleExpression']} {schedule['ScheduleExpressionTimezone']} is not a time in UTC"
        )
    return datetime.fromisoformat(f"{found[1]}+00:00")


def problems(schedule: Properties) -> list[str]:
    """Return what Scheduler and the API behind it have against a schedule."""
    try:
        time_of(schedule)
    except ValueError as error:
        return [str(error)]
    target = UNIVERSAL.fullmatch(schedule["Target"]["Arn"])
    if not target:
        return [f"{schedule['Target']['Arn']} is no universal target"]
    service, operation = target[1], target[2][:1].upper() + target[2][1:]
    model = service_model(service)
    if operation not in model.operation_names:
        return [f"{service} has no operation {operation}"]
    try:
        shape = model.operation_model(operation).input_shape
        arguments = universal_arguments(shape, json.loads(schedule["Target"]["Input"]))
    except (ValueError, ResourceError) as error:
        return [str(error)]
    return request_problems(service, operation, arguments)


def schedules(name: str = SHAPE) -> dict[str, Properties]:
    """Return the schedules of a platform by their logical ID."""
    return {name: each for (_, name), each in deployed_of(name).of_type("AWS::Scheduler::Schedule").items()}


@pytest.mark.parametrize("names", some_and_all_platforms((SHAPE,)))
def test_every_schedule_makes_a_call_that_its_api_takes(names: tuple[str, ...]) -> None:
    read = [
        each for platform in deployed(names).values() for each in platform.of_type("AWS::Scheduler::Schedule").values()
    ]
    assert read
    assert [problem for each in read for problem in problems(each)] == []


def test_the_times_are_those_of_the_plan() -> None:
    platform: Platform = platforms()[SHAPE]
    expected = []
    for group in platform.node_groups:
        if times := capacity_times(group):
            expected += [(times.raised, group.count), (times.drained, 0)]
    found = []
    for schedule in schedules().values():
        nodes = json.loads(schedule["Target"]["Input"])["ScalingConfig"]["DesiredSize"]
        found.append((time_of(schedule), nodes))
    assert sorted(found) == sorted(expected) and expected


def with_error(error: str, change: Callable[[Properties], object]) -> Planted:
    """Plant an error in a schedule of a shape."""

    def read(_: Path, *, broken: bool) -> list[str]:
        schedule = copy.deepcopy(next(iter(schedules().values())))
        if broken:
            change(schedule)
        return problems(schedule)

    return Planted(error, sound=lambda path: read(path, broken=False), broken=lambda path: read(path, broken=True))


def _replace(old: str, new: str, *keys: str) -> Callable[[Properties], None]:
    def change(schedule: Properties) -> None:
        for key in keys[:-1]:
            schedule = schedule[key]
        assert old in schedule[keys[-1]]
        schedule[keys[-1]] = schedule[keys[-1]].replace(old, new)

    return change


SEAMS = (
    Seam(
        artifact="Calls that schedules make",
        rendered_by="stacks/constructs/eks/capacity_schedules.py",
        reader="botocore's model of the API that is called, and the documented forms of times and universal targets",
        instead="EventBridge Scheduler runs only in AWS; the emulator calls the targets by a clock that tests set.",
        planted=(
            with_error("a name is the API's own", _replace("NodegroupName", "nodegroupName", "Target", "Input")),
            with_error("the number of nodes is a text", _replace('Size":', 'Size":"x","MaxSize":', "Target", "Input")),
            with_error("the operation does not exist", _replace("update", "scale", "Target", "Arn")),
            with_error("the time has its zone", _replace(")", "Z)", "ScheduleExpression")),
            with_error("the time is local", _replace("UTC", "Europe/Berlin", "ScheduleExpressionTimezone")),
        ),
    ),
)
