"""The CloudWatch dashboard of a platform: the panels whose metrics CloudWatch has, and its alarms."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from stacks.constructs.monitoring.metric_alarm import cloudwatch_metric
from trainway.monitoring.alarm import FILE_SYSTEM
from trainway.monitoring.panels import cloudwatch_panels
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform

# The grid has 24 columns.
# https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/CloudWatch-Dashboard-Body-Structure.html
# (read 2026-11-22)
WIDTH, COLUMNS = 8, 3


def dashboard(
    scope: Construct,
    *,
    platform: Platform,
    catalogue: Catalogue,
    alarms: Sequence[tuple[str, cloudwatch.Alarm]],
    file_system_id: str,
) -> None:
    """Add the dashboard, unless there is nothing to show. `alarms` has those of CloudWatch with their titles."""
    graphs = [
        cloudwatch.GraphWidget(
            title=panel.title,
            left=[
                cloudwatch_metric(
                    each.metric,
                    {name: file_system_id if value == FILE_SYSTEM else value for name, value in each.dimensions},
                    statistic=each.statistic,
                    seconds=each.period_seconds,
                    label=each.label,
                )
                for each in series
            ],
            width=WIDTH,
        )
        for panel, series in cloudwatch_panels(platform, catalogue)
    ]
    of_alarms = [cloudwatch.AlarmWidget(title=title, alarm=alarm, width=WIDTH) for title, alarm in alarms]
    if graphs or of_alarms:
        name = f"trainway-{platform.name}"
        cloudwatch.Dashboard(scope, "Dashboard", dashboard_name=name, widgets=[*_rows(graphs), *_rows(of_alarms)])


def _rows(widgets: Sequence[cloudwatch.IWidget]) -> list[list[cloudwatch.IWidget]]:
    return [list(widgets[first : first + COLUMNS]) for first in range(0, len(widgets), COLUMNS)]
