"""Observability: one dashboard to open first, and an alarm on what stops every job at once."""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from stacks.constructs.alerts import Alerts
from stacks.file_system import FileSystemStack
from trainway.spec.platform import Platform

FIVE_MINUTES = cdk.Duration.minutes(5)


class ObservabilityStack(cdk.Stack):
    """A CloudWatch dashboard and the file system's alarm.

    Metrics and dimensions: https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html (read 2026-11-21)
    """

    def __init__(
        self, scope: Construct, id: str, *, platform: Platform, file_system: FileSystemStack, env: cdk.Environment
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: observability")
        alerts = Alerts(self, "Alerts", name=platform.name, notify=platform.observability.notify)
        file_system_id = file_system.lustre.file_system.ref

        def lustre(metric: str, statistic: str = "Sum") -> cloudwatch.Metric:
            return cloudwatch.Metric(
                namespace="AWS/FSx",
                metric_name=metric,
                dimensions_map={"FileSystemId": file_system_id},
                statistic=statistic,
                period=FIVE_MINUTES,
            )

        free = lustre("FreeDataStorageCapacity")
        nearly_full = free.create_alarm(
            self,
            "LustreNearlyFull",
            alarm_description="Less than a tenth of the Lustre file system is free: checkpoints are about to fail.",
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            threshold=0.1 * platform.storage.lustre.capacity_gib * 2**30,
            evaluation_periods=3,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )
        nearly_full.add_alarm_action(actions.SnsAction(alerts.topic))
        dashboard = cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"trainway-{platform.name}")
        dashboard.add_widgets(
            cloudwatch.GraphWidget(title="Lustre: free bytes", left=[free], width=8),
            cloudwatch.GraphWidget(
                title="Lustre: bytes in five minutes", left=[lustre("DataReadBytes"), lustre("DataWriteBytes")], width=8
            ),
            cloudwatch.AlarmWidget(title="Lustre nearly full", alarm=nearly_full, width=8),
        )
