"""The state of an alarm of CloudWatch after the points that a service has sent.

moto keeps alarms, and judges none. A statistic combines all points of a period: those of several sources, and those of
several moments.
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/cloudwatch_concepts.html
https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarms-and-missing-data.html (both read 2026-11-30)
"""

from __future__ import annotations

import ast
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


def state_of(
    alarm: Mapping[str, Any], points: Iterable[Datapoint], now: float, quotas: Mapping[str, float] | None = None
) -> str:
    """Return the state of an alarm on one metric or on metric math, by the properties of AWS::CloudWatch::Alarm.

    CloudWatch looks every minute at the periods that end with the last whole minute. A point is of the metric only if
    it has exactly the dimensions of the alarm. `quotas` has the service quotas by the dimension `Class`. Raises
    KeyError for an alarm on something else.
    """
    sent, count = list(points), alarm["EvaluationPeriods"]
    values, breaches = _values(alarm, sent, now, quotas or {}), _COMPARISONS[alarm["ComparisonOperator"]]
    judged = [breaches(each, alarm["Threshold"]) for each in values if each is not None][:count]
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


def _values(
    alarm: Mapping[str, Any], points: Sequence[Datapoint], now: float, quotas: Mapping[str, float]
) -> list[float | None]:
    """Return what the alarm compares for each period, the newest first. None is a period without points."""
    wanted = alarm["EvaluationPeriods"] + _OLDER_PERIODS
    if not alarm.get("Metrics"):
        return _of_metric(alarm, alarm["Statistic"], alarm["Period"], points, now, wanted)
    (expression,) = [each["Expression"] for each in alarm["Metrics"] if "Expression" in each]
    parts, limits = {}, {}
    for each in alarm["Metrics"]:
        if stat := each.get("MetricStat"):
            metric = stat["Metric"]
            parts[each["Id"]] = _of_metric(metric, stat["Stat"], stat["Period"], points, now, wanted)
            limits[each["Id"]] = quotas.get(_dimensions(metric).get("Class", ""), math.nan)
    found: list[float | None] = []
    for period in range(wanted):
        values = {name: each[period] for name, each in parts.items()}
        known = {name: value for name, value in values.items() if value is not None}
        found.append(_calculated(expression, known, limits) if len(known) == len(values) else None)
    return found


def _of_metric(
    metric: Mapping[str, Any], statistic: str, seconds: int, points: Iterable[Datapoint], now: float, wanted: int
) -> list[float | None]:
    """Return a metric's statistic for each of the `wanted` newest periods."""
    end, dimensions = now // 60 * 60, _dimensions(metric)
    periods: list[list[float]] = [[] for _ in range(wanted)]
    for point in points:
        age = (end - point.time) / seconds
        is_of_metric = (point.namespace, point.metric) == (metric["Namespace"], metric["MetricName"])
        if is_of_metric and point.dimensions == dimensions and 0 < age <= wanted:
            periods[math.ceil(age) - 1].append(point.value)
    combine = _STATISTICS[statistic]
    return [combine(values) if values else None for values in periods]


def _dimensions(metric: Mapping[str, Any]) -> dict[str, str]:
    return {each["Name"]: each["Value"] for each in metric.get("Dimensions", ())}


def _calculated(expression: str, values: Mapping[str, float], quotas: Mapping[str, float]) -> float:
    """Return the value of an expression of metric math with products, quotients, and SERVICE_QUOTA.

    https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/using-metric-math.html (read 2026-12-01)
    """

    def value(node: ast.expr) -> float:
        match node:
            case ast.BinOp(left, ast.Mult(), right):
                return value(left) * value(right)
            case ast.BinOp(left, ast.Div(), right):
                return value(left) / value(right)
            case ast.Call(ast.Name("SERVICE_QUOTA"), [ast.Name(name)]):
                return quotas[name]
            case ast.Name(name):
                return values[name]
            case ast.Constant(float() | int() as number):
                return float(number)
        raise KeyError(expression)

    return value(ast.parse(expression, mode="eval").body)
