"""The state of an alarm of CloudWatch after the points that a service has sent.

moto keeps alarms, and judges none. A statistic combines all points of a period: those of several sources, and those of
several moments.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html (both read 2026-11-30)
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

ALARM, OK, INSUFFICIENT_DATA = "ALARM", "OK", "INSUFFICIENT_DATA"

# CloudWatch also looks at some older periods, in case that newer ones have no points. It does not say at how many. Its
# examples with three periods show five.
_OLDER_PERIODS = 2

_STATISTICS: Final[Mapping[str, Callable[[Sequence[float]], float]]] = {
    "Average": lambda values: sum(values) / len(values),
    "Maximum": max,
    "Minimum": min,
    "SampleCount": len,
    "Sum": sum,
}
_COMPARISONS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "GreaterThanOrEqualToThreshold": operator.ge,
    "GreaterThanThreshold": operator.gt,
    "LessThanOrEqualToThreshold": operator.le,
    "LessThanThreshold": operator.lt,
}


@dataclass(frozen=True)
class Datapoint:
    """A point that a service sends, at a time in seconds since the epoch."""

    time: float
    namespace: str
    metric: str
    dimensions: Mapping[str, str]
    value: float


def state_of(alarm: Mapping[str, Any], points: Iterable[Datapoint], now: float) -> str:
    """Return the state of an alarm on one metric, by the properties of AWS::CloudWatch::Alarm.

    CloudWatch looks every minute at the periods that end with the last whole minute. A point is of the metric only if
    it has exactly the dimensions of the alarm. Raises KeyError for an alarm on something else than one metric.
    """
    asked = {each["Name"]: each["Value"] for each in alarm.get("Dimensions", ())}
    metric, seconds, count = (alarm["Namespace"], alarm["MetricName"]), alarm["Period"], alarm["EvaluationPeriods"]
    end = now // 60 * 60
    periods: list[list[float]] = [[] for _ in range(count + _OLDER_PERIODS)]
    for point in points:
        age = (end - point.time) / seconds
        if (point.namespace, point.metric) == metric and point.dimensions == asked and 0 < age <= len(periods):
            periods[math.ceil(age) - 1].append(point.value)
    combine, breaches = _STATISTICS[alarm["Statistic"]], _COMPARISONS[alarm["ComparisonOperator"]]
    judged = [breaches(combine(values), alarm["Threshold"]) for values in periods if values][:count]
    needed = alarm.get("DatapointsToAlarm", count)
    missing = alarm.get("TreatMissingData", "missing")
    if missing == "missing":
        if not judged:
            return INSUFFICIENT_DATA
        needed = min(needed, len(judged)) if all(judged) else needed
    else:
        filled = {"breaching": True, "notBreaching": False}[missing]
        judged += [filled] * (count - len(judged))
    return ALARM if sum(judged) >= needed else OK
