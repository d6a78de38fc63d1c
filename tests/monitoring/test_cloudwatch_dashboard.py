"""Each graph of the CloudWatch dashboard gets the data that FSx sends, from moto's CloudWatch."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.seams.resolved import deployed_of

MINUTES = 5
# The values of two storage targets, which send a point every minute, and what each statistic makes of them.
TARGETS = (100.0, 300.0)
BY_STATISTIC = {"Sum": 400.0, "Minimum": 100.0, "Average": 200.0}
Line = tuple[str, str, list[float]]


def drawn(without: str = "") -> list[Line]:
    """Return the metric, the statistic, and the values of each line. FSx sends all metrics but `without`."""
    import boto3
    from moto import mock_aws

    (dashboard,) = deployed_of("eks-p5").of_type("AWS::CloudWatch::Dashboard").values()
    widgets = [widget["properties"] for widget in json.loads(dashboard["DashboardBody"])["widgets"]]
    # Widgets of alarms have annotations instead.
    series = [each for widget in widgets for each in widget.get("metrics", ())]
    now = datetime.now(UTC).replace(second=0, microsecond=0)
    with mock_aws():
        cloudwatch = boto3.client("cloudwatch", region_name="us-west-2")
        of_metric: dict[str, Any] = {
            metric: {"MetricName": metric, "Dimensions": [{"Name": name, "Value": value}]}
            for _, metric, name, value, _ in series
        }
        for metric in of_metric.keys() - {without}:
            for minute in range(MINUTES):
                at = now - timedelta(minutes=minute + 1)
                points = [{**of_metric[metric], "Timestamp": at, "Value": each} for each in TARGETS]
                cloudwatch.put_metric_data(Namespace="AWS/FSx", MetricData=points)
        lines = []
        for namespace, metric, _, _, shown in series:
            # CloudWatch draws the average unless the widget says something else.
            statistic = shown.get("stat", "Average")
            asked = {"Metric": {"Namespace": namespace, **of_metric[metric]}, "Period": shown["period"]}
            answer = cloudwatch.get_metric_data(
                MetricDataQueries=[{"Id": "a", "MetricStat": asked | {"Stat": statistic}}],
                StartTime=now - timedelta(hours=1),
                EndTime=now,
            )
            lines.append((metric, statistic, list(answer["MetricDataResults"][0]["Values"])))
    return lines


def test_each_line_of_each_graph_has_a_value_of_the_whole_file_system_for_each_minute() -> None:
    lines = drawn()
    assert len(lines) == 7
    for metric, statistic, values in lines:
        assert values == [BY_STATISTIC[statistic]] * MINUTES, metric


def test_the_line_of_a_metric_that_nobody_sends_is_empty() -> None:
    assert {metric for metric, _, values in drawn(without="DataReadBytes") if not values} == {"DataReadBytes"}
