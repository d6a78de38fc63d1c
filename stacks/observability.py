"""Observability: one dashboard, and alarms on problems that stop jobs, lose work, or are unsafe."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from stacks.constructs.delivery.image_settings import ImageSettings
from stacks.constructs.monitoring.alerts import Alerts
from stacks.constructs.monitoring.scan_alarm import ScanAlarm
from stacks.foundation.file_system import FileSystemStack
from trainway.spec.derived.capacity_times import capacity_times, failed_calls_queue
from trainway.spec.handoff import DEFAULT_IMAGE
from trainway.spec.platform import Platform
from trainway.spec.sections.orchestrator import Orchestrator
from trainway.spec.sections.storage import Lustre

FIVE_MINUTES = cdk.Duration.minutes(5)
EXPORT_BEHIND = cdk.Duration.hours(1)


class ObservabilityStack(cdk.Stack):
    """A CloudWatch dashboard, and alarms on the file system, the schedules of Capacity Blocks, and the training image.

    Metrics and dimensions: https://docs.aws.amazon.com/fsx/latest/LustreGuide/fs-metrics.html (read 2026-11-21)
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        file_system: FileSystemStack,
        images: Mapping[str, ImageSettings],
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: observability")
        alerts = Alerts(self, "Alerts", name=platform.name, notify=platform.observability.notify)
        for image, settings in images.items():
            if severity := platform.of_image(image).image.scan.severity:
                words = [] if image == DEFAULT_IMAGE else image.split("-")
                ScanAlarm(
                    self,
                    f"ImageScan{''.join(word.capitalize() for word in words)}",
                    platform=platform.name,
                    repository=settings.repository,
                    tag=settings.tag,
                    severity=severity,
                    alerts=alerts,
                )
        self._file_system_id = file_system.lustre.file_system_id
        lustre = platform.storage.lustre
        traffic = [self._lustre("DataReadBytes"), self._lustre("DataWriteBytes")]
        widgets: list[cloudwatch.IWidget] = [
            cloudwatch.GraphWidget(title="Lustre: bytes in five minutes", left=traffic, width=8)
        ]
        # A file system without a fixed capacity cannot fill up.
        alarms = [] if lustre.is_elastic else [("Lustre nearly full", self._nearly_full(lustre))]
        if lustre.mirrored:
            alarms.append(("Lustre behind with copies to S3", self._export_is_behind()))
        if platform.orchestrator is Orchestrator.EKS and any(map(capacity_times, platform.node_groups)):
            alarms.append(("Calls of capacity schedules that failed", self._schedule_failed(platform.name)))
        for title, alarm in alarms:
            alarm.add_alarm_action(actions.SnsAction(alerts.topic))
            widgets.append(cloudwatch.AlarmWidget(title=title, alarm=alarm, width=8))
        cloudwatch.Dashboard(self, "Dashboard", dashboard_name=f"trainway-{platform.name}", widgets=[widgets])

    def _lustre(self, metric: str, statistic: str = "Sum", **dimensions: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/FSx",
            metric_name=metric,
            dimensions_map={"FileSystemId": self._file_system_id, **dimensions},
            statistic=statistic,
            period=FIVE_MINUTES,
        )

    def _nearly_full(self, lustre: Lustre) -> cloudwatch.Alarm:
        free = 100 - lustre.nearly_full_percent
        return self._lustre("FreeDataStorageCapacity").create_alarm(
            self,
            "LustreNearlyFull",
            alarm_description=f"Less than {free} % of the Lustre file system is free: checkpoints are about to fail.",
            comparison_operator=cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD,
            threshold=free / 100 * lustre.capacity_gib * 2**30,
            evaluation_periods=3,
            treat_missing_data=cloudwatch.TreatMissingData.MISSING,
        )

    def _schedule_failed(self, platform: str) -> cloudwatch.Alarm:
        """Return the alarm on calls of capacity schedules that failed for good.

        https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-available-cloudwatch-metrics.html
        (read 2026-11-23)
        """
        waiting = cloudwatch.Metric(
            namespace="AWS/SQS",
            metric_name="ApproximateNumberOfMessagesVisible",
            dimensions_map={"QueueName": failed_calls_queue(platform)},
            statistic="Maximum",
            period=FIVE_MINUTES,
        )
        return waiting.create_alarm(
            self,
            "CapacityScheduleFailed",
            alarm_description=f"A schedule could not set the nodes of a Capacity Block. The call is in the queue "
            f"{failed_calls_queue(platform)}: set the nodes by hand.",
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=0,
            evaluation_periods=1,
            # An unused queue publishes no metrics.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )

    def _export_is_behind(self) -> cloudwatch.Alarm:
        """Return the alarm on exports to S3 that fall behind.

        https://docs.aws.amazon.com/fsx/latest/LustreGuide/monitoring-cloudwatch.html#auto-import-export-metrics
        """
        oldest = self._lustre("AgeOfOldestQueuedMessage", "Maximum", Publisher="AutoExport")
        return oldest.create_alarm(
            self,
            "LustreExportBehind",
            alarm_description="What was written an hour ago is not in the bucket yet, and goes with the file system.",
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
            threshold=EXPORT_BEHIND.to_seconds(),
            evaluation_periods=3,
            # FSx publishes no metric if no export is pending.
            treat_missing_data=cloudwatch.TreatMissingData.NOT_BREACHING,
        )
