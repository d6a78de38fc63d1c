"""Each alarm of CloudWatch goes off at the points that its service sends, and is silent in its twin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from emulator.services.alarm_states import Datapoint, state_of
from tests.synthesis import ROOT
from trainway.monitoring import alarm
from trainway.monitoring.alarms import every_alarm
from trainway.monitoring.rules import store_of
from trainway.spec.loader import load_platform
from trainway.spec.sections.capacity import CapacityBlock

TIB = 2**40
NOW = 1.8e9
FILE_SYSTEM = {"FileSystemId": "fs-0123456789abcdef0"}
NAT = {"NatGatewayId": "nat-0123456789abcdef0"}
P_QUOTA = {"Service": "EC2", "Type": "Resource", "Resource": "vCPU", "Class": "P/OnDemand"}
RESOURCES = {
    alarm.FILE_SYSTEM: {"": FILE_SYSTEM["FileSystemId"]},
    alarm.NAT_GATEWAY: {"": NAT["NatGatewayId"]},
    alarm.RULE: {"NodeUnhealthy": "rule-1"},
    alarm.QUEUED_RULE: {"Scan": "rule-2"},
    alarm.QUOTA_CLASS: {"P": "P/OnDemand"},
}
# The first storage target is the fuller one. 10 % of 9.6 TiB are 0.96 TiB.
FREE = 0.36, 0.56
# For each alarm: the namespace, the metric, and the dimensions of its points, and the values at which it goes off and
# is silent, minute by minute, the newest last. A list has the values of several sources. None is a minute without any.
Minutes = Sequence[float | Sequence[float] | None]
CASES: dict[str, tuple[str, str, Mapping[str, str], Minutes, Minutes]] = {
    "LustreNearlyFull": (
        "AWS/FSx",
        "FreeDataStorageCapacity",
        FILE_SYSTEM,
        [[3 * TIB, 4 * TIB]] * 10 + [[each * TIB for each in FREE]] * 16,
        # It was nearly full for a quarter of an hour, until a minute ago.
        [[each * TIB for each in FREE]] * 16 + [[0.4 * TIB, 0.6 * TIB]],
    ),
    # The fullest of two targets has 0.2 TiB. 5 % of its half of 9.6 TiB are 0.24 TiB.
    "LustreTargetFull": (
        "AWS/FSx",
        "FreeDataStorageCapacity",
        FILE_SYSTEM,
        [[0.2 * TIB, 4 * TIB]] * 16,
        [[0.25 * TIB, 4 * TIB]] * 16,
    ),
    "LustreExportBehind": (
        "AWS/FSx",
        "AgeOfOldestQueuedMessage",
        {**FILE_SYSTEM, "Publisher": "AutoExport"},
        [10] * 5 + [3700] * 20,
        [4000] * 10 + [None] * 15,
    ),
    # A message is told within some minutes, and another one comes.
    "EventsNotTold": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", {}, [1] * 20, [1] * 8 + [0] + [1] * 8),
    "RuleFailedNodeUnhealthy": (
        "AWS/Events",
        "FailedInvocations",
        {"RuleName": "rule-1"},
        [None] * 5 + [1],
        [1] + [None] * 16,
    ),
    "DeadLetterFailedScan": (
        "AWS/Events",
        "InvocationsFailedToBeSentToDlq",
        {"RuleName": "rule-2"},
        [None] * 5 + [1],
        [1] + [None] * 16,
    ),
    "NatPorts": ("AWS/NATGateway", "ErrorPortAllocation", NAT, [0] * 5 + [40], [40] + [0] * 6),
    # The quota has 1,000 vCPUs.
    "QuotaNearlyUsedP": ("AWS/Usage", "ResourceCount", P_QUOTA, [768] * 5 + [960] * 5, [960] + [768] * 9),
    "CapacityScheduleFailed": ("AWS/SQS", "ApproximateNumberOfMessagesVisible", {}, [0] * 5 + [1], [1] + [0] * 6),
}


@pytest.fixture(scope="module")
def alarms() -> dict[str, dict[str, Any]]:
    """Return the properties of all alarms, by name, of a platform whose file system mirrors the bucket."""
    import aws_cdk as cdk
    from aws_cdk.assertions import Template

    from stacks.constructs.monitoring.metric_alarm import metric_alarms

    mirrored = load_platform(ROOT / "examples/hyperpod-eks-p5.yaml")
    on_eks = load_platform(ROOT / "examples/eks-p5.yaml")
    times = {"start": datetime(2027, 1, 1, 11, 30, tzinfo=UTC), "end": datetime(2027, 1, 8, 11, 30, tzinfo=UTC)}
    block = CapacityBlock(capacity_block="cr-0123456789abcdef0", **times)
    group = on_eks.node_groups[0].model_copy(update={"capacity": block})
    timed = on_eks.model_copy(update={"node_groups": (group,)})
    stack = cdk.Stack()
    found = {each.name: each for platform in (mirrored, timed) for each in every_alarm(platform)}
    assert "CapacityScheduleFailed" not in {each.name for each in every_alarm(on_eks)}
    for each in found.values():
        if store_of(each) == "cloudwatch":
            list(metric_alarms(stack, each, RESOURCES))
    made = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm")
    return {name[:-8]: each["Properties"] for name, each in made.items()}


def points(namespace: str, metric: str, dimensions: Mapping[str, str], minutes: Minutes) -> Iterator[Datapoint]:
    """Yield the points of a service that sends one of each source every minute."""
    for age, values in enumerate(reversed(minutes), start=1):
        for each in [] if values is None else values if isinstance(values, Sequence) else [values]:
            yield Datapoint(NOW - 60 * age, namespace, metric, dimensions, each)


def test_each_alarm_goes_off_and_is_silent_in_its_twin(alarms: dict[str, dict[str, Any]]) -> None:
    assert alarms.keys() == CASES.keys()
    for name, properties in alarms.items():
        namespace, metric, stated, *both = CASES[name]
        dimensions = stated or {each["Name"]: each["Value"] for each in properties["Dimensions"]}
        quotas = {"P/OnDemand": 1000.0}
        found = [state_of(properties, points(namespace, metric, dimensions, each), NOW, quotas) for each in both]
        assert found == ["ALARM", "OK"], name


def test_the_free_bytes_of_several_minutes_are_not_added(alarms: dict[str, dict[str, Any]]) -> None:
    namespace, metric, dimensions, full, _ = CASES["LustreNearlyFull"]
    sent = list(points(namespace, metric, dimensions, full))
    alarm = alarms["LustreNearlyFull"]
    assert state_of(alarm, sent, NOW) == "ALARM"
    assert state_of(alarm | {"Period": 300, "EvaluationPeriods": 3}, sent, NOW) == "OK", "five times as much is free"


# The table of https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html for three of
# three periods: the points, the oldest first (0: not breaching, X: breaching, -: missing), and the states with the
# missing points missing, breaching, and not breaching.
@pytest.mark.parametrize(
    ("sent", "missing", "breaching", "not_breaching"),
    [
        ("0-X-X", "OK", "OK", "OK"),
        ("----0", "OK", "OK", "OK"),
        ("-----", "INSUFFICIENT_DATA", "ALARM", "OK"),
        ("0XX-X", "ALARM", "ALARM", "ALARM"),
        ("--X--", "ALARM", "ALARM", "OK"),
    ],
)
def test_a_missing_point_is_judged_as_by_cloudwatch(
    sent: str, missing: str, breaching: str, not_breaching: str
) -> None:
    alarm = {
        "Namespace": "N",
        "MetricName": "m",
        "Statistic": "Sum",
        "Period": 60,
        "EvaluationPeriods": 3,
        "Threshold": 0,
        "ComparisonOperator": "GreaterThanThreshold",
    }
    values = {"0": 0.0, "X": 1.0, "-": None}
    found = list(points("N", "m", {}, [values[each] for each in sent]))
    states = [
        state_of(alarm | {"TreatMissingData": each}, found, NOW) for each in ("missing", "breaching", "notBreaching")
    ]
    assert states == [missing, breaching, not_breaching]
    others = [Datapoint(each.time, "N", "m", {"of": "another"}, 1.0) for each in found]
    assert state_of(alarm, others, NOW) == "INSUFFICIENT_DATA"


def test_an_alarm_in_promql_has_no_form_in_cloudwatch() -> None:
    import aws_cdk as cdk

    from stacks.constructs.monitoring.metric_alarm import metric_alarms

    platform = load_platform(ROOT / "examples/eks-p5.yaml")
    hangs = next(each for each in every_alarm(platform) if each.name == "RunHangs")
    with pytest.raises(TypeError, match="RunHangs has a condition in PromQL"):
        list(metric_alarms(cdk.Stack(), hangs, RESOURCES))
