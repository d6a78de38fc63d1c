"""CloudWatch's form of an alarm that is written once."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from trainway.monitoring.alarm import FILE_SYSTEM, Alarm, Threshold
from trainway.spec.facts.metrics import emitters_of_metric


def metric_alarm(scope: Construct, alarm: Alarm, *, file_system_id: str) -> cloudwatch.Alarm:
    """Return the CloudWatch alarm, with the alarm's name as its ID.

    Raises TypeError for a condition of which CloudWatch has no form.
    """
    (condition,) = alarm.conditions
    if not isinstance(condition, Threshold):
        raise TypeError(f"{alarm.name} has a condition in PromQL, of which CloudWatch has no form")
    (emitter,) = emitters_of_metric(condition.metric)
    dimensions = {
        name: file_system_id if value == FILE_SYSTEM else value for name, value in condition.dimensions.items()
    }
    metric = cloudwatch.Metric(
        namespace=str(emitter.namespace),
        metric_name=condition.metric,
        dimensions_map=dimensions,
        statistic=condition.statistic,
        period=cdk.Duration.seconds(condition.period_seconds),
    )
    operators, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
    return metric.create_alarm(
        scope,
        alarm.name,
        alarm_description=alarm.summary,
        comparison_operator=operators.GREATER_THAN_THRESHOLD
        if condition.comparison == ">"
        else operators.LESS_THAN_THRESHOLD,
        threshold=condition.value,
        evaluation_periods=max(1, round(60 * alarm.minutes / condition.period_seconds)),
        treat_missing_data=missing.NOT_BREACHING if alarm.missing_is_fine else missing.MISSING,
    )
