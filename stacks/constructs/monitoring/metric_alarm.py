"""CloudWatch's form of metrics and alarms that are written once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from trainway.monitoring.alarm import Alarm, Threshold
from trainway.spec.facts.metrics import emitters_of_metric


def metric_alarms(
    scope: Construct, alarm: Alarm, resources: Mapping[str, Mapping[str, str]]
) -> Iterator[cloudwatch.Alarm]:
    """Yield the CloudWatch alarms of an alarm, with the alarm's name as their IDs.

    `resources` has the values of what stands in dimensions for resources of the platform, such as FILE_SYSTEM. Each
    value has an alarm, whose ID ends with the key of the value. Raises TypeError for a condition of which CloudWatch
    has no form.
    """
    (condition,) = alarm.conditions
    if not isinstance(condition, Threshold):
        raise TypeError(f"{alarm.name} has a condition in PromQL, of which CloudWatch has no form")
    stated = dict(condition.dimensions)
    open_ = [name for name, value in stated.items() if value in resources]
    if not open_:
        yield _alarm(scope, alarm.name, alarm, condition, stated)
    for name in open_:
        for key, value in resources[stated[name]].items():
            yield _alarm(scope, f"{alarm.name}{key}", alarm, condition, stated | {name: value})


def _alarm(
    scope: Construct, id: str, alarm: Alarm, condition: Threshold, dimensions: dict[str, str]
) -> cloudwatch.Alarm:
    period = cdk.Duration.seconds(condition.period_seconds)
    metric = cloudwatch_metric(
        condition.metric, dimensions, statistic=condition.statistic, seconds=condition.period_seconds
    )
    compared: cloudwatch.IMetric = metric
    if math := condition.metric_math:
        parts: dict[str, cloudwatch.IMetric] = {"m1": metric, "m2": metric.with_(statistic="SampleCount")}
        used = {name: each for name, each in parts.items() if name in math}
        compared = cloudwatch.MathExpression(expression=math, using_metrics=used, period=period)
    operators, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
    return cloudwatch.Alarm(
        scope,
        id,
        metric=compared,
        alarm_description=alarm.summary,
        comparison_operator=operators.GREATER_THAN_THRESHOLD
        if condition.comparison == ">"
        else operators.LESS_THAN_THRESHOLD,
        threshold=condition.value,
        evaluation_periods=max(1, round(60 * alarm.minutes / condition.period_seconds)),
        treat_missing_data=missing.NOT_BREACHING if alarm.missing_is_fine else missing.MISSING,
    )


def cloudwatch_metric(
    name: str, dimensions: Mapping[str, str], *, statistic: str, seconds: int, label: str | None = None
) -> cloudwatch.Metric:
    """Return a metric of the namespace that emits it. `label` names its line in a graph."""
    (emitter,) = emitters_of_metric(name)
    return cloudwatch.Metric(
        namespace=str(emitter.namespace),
        metric_name=name,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        period=cdk.Duration.seconds(seconds),
        label=label,
    )
