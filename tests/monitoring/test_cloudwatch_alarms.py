"""Each alarm of CloudWatch goes off at its points, and is silent in its twin.

CloudWatch runs only in AWS, and moto keeps alarms without evaluating them. `state` follows the page about evaluation,
for alarms on one metric all of whose evaluated periods must breach.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html (read 2026-11-25)
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.synthesis import ROOT
from trainway.monitoring.alarms import every_alarm
from trainway.monitoring.rules import store_of
from trainway.spec.loader import load_platform

TIB = 2**40
# Points of five minutes, the newest last. None is a missing one. 10 % of 9.6 TiB are 0.96 TiB.
CASES: dict[str, tuple[list[float | None], list[float | None]]] = {
    "LustreNearlyFull": ([9 * TIB, 0.9 * TIB, 0.5 * TIB, 0.1 * TIB], [0.9 * TIB, 0.9 * TIB, TIB, 0.9 * TIB]),
    "LustreExportBehind": ([10, 3700, 4000, 4300], [4000, 4300, 4600, None]),
    "CapacityScheduleFailed": ([0, 1], [None, 0]),
}


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    """Return the properties of all alarms, by name, of a platform whose file system mirrors the bucket."""
    import aws_cdk as cdk
    from aws_cdk.assertions import Template

    from stacks.constructs.monitoring.metric_alarm import metric_alarm

    platform = load_platform(ROOT / "examples/hyperpod-eks-p5.yaml")
    stack = cdk.Stack()
    for each in every_alarm(platform):
        if store_of(each) == "cloudwatch":
            metric_alarm(stack, each, file_system_id="fs-0123456789abcdef0")
    found = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm")
    return {name.rstrip("0123456789ABCDEF"): each["Properties"] for name, each in found.items()}


def state(alarm: dict[str, Any], points: list[float | None]) -> str:
    """Return the state of an alarm after the newest points."""
    looked_at = points[-alarm["EvaluationPeriods"] :]
    breach = {
        "GreaterThanThreshold": lambda point: point > alarm["Threshold"],
        "LessThanThreshold": lambda point: point < alarm["Threshold"],
    }[alarm["ComparisonOperator"]]
    if alarm["TreatMissingData"] == "notBreaching":
        judged = [each is not None and breach(each) for each in looked_at]
    else:
        judged = [breach(each) for each in looked_at if each is not None]
    return "ALARM" if judged and all(judged) else "OK"


def test_each_alarm_goes_off_and_is_silent_in_its_twin(alarms: dict[str, dict[str, Any]]) -> None:
    assert alarms.keys() == CASES.keys()
    for name, alarm in alarms.items():
        assert [state(alarm, points) for points in CASES[name]] == ["ALARM", "OK"], name


def test_an_alarm_in_promql_has_no_form_in_cloudwatch() -> None:
    import aws_cdk as cdk

    from stacks.constructs.monitoring.metric_alarm import metric_alarm

    platform = load_platform(ROOT / "examples/eks-p5.yaml")
    hangs = next(each for each in every_alarm(platform) if each.name == "RunHangs")
    with pytest.raises(TypeError, match="RunHangs has a condition in PromQL"):
        metric_alarm(cdk.Stack(), hangs, file_system_id="fs-0123456789abcdef0")
