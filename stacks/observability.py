"""Observability: one dashboard, the alarms whose metrics CloudWatch has, and messages about events."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch_actions as actions
from constructs import Construct

from stacks.constructs.delivery.image_settings import ImageSettings
from stacks.constructs.monitoring.alerts import Alerts
from stacks.constructs.monitoring.budget import monthly_budget
from stacks.constructs.monitoring.dashboard import dashboard
from stacks.constructs.monitoring.event_messages import EventMessages
from stacks.constructs.monitoring.metric_alarm import metric_alarms
from stacks.constructs.monitoring.scan_alarm import ScanAlarm
from stacks.foundation.file_system import FileSystemStack
from stacks.foundation.offer import offer
from stacks.foundation.storage import StorageStack
from trainway.monitoring.alarm import FILE_SYSTEM, NAT_GATEWAY, QUEUED_RULE, QUOTA_CLASS, RULE
from trainway.monitoring.events import event_kinds
from trainway.monitoring.rules import cloudwatch_alarms
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff_names import DEFAULT_IMAGE
from trainway.spec.observability.quota_classes import quota_classes
from trainway.spec.platform import Platform

# The titles of alarms in the dashboard. Those on the rules of events are about single events, and are not there.
TITLES = {
    "CapacityScheduleFailed": "Calls of capacity schedules that failed",
    "EventsNotTold": "Events that nobody was told of",
    "LustreExportBehind": "Lustre behind with copies to S3",
    "LustreNearlyFull": "Lustre nearly full",
    "LustreTargetFull": "A storage target of Lustre nearly full",
    "NatPorts": "Ports of NAT used up",
    "QuotaNearlyUsed": "Quota of vCPUs nearly used",
}


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
        catalogue: Catalogue,
        storage: StorageStack,
        file_system: FileSystemStack,
        nat_gateway_id: str | None,
        images: Mapping[str, ImageSettings],
        env: cdk.Environment,
    ) -> None:
        super().__init__(scope, id, env=env, description=f"Trainway {platform.name}: observability")
        alerts = Alerts(
            self,
            "Alerts",
            name=platform.name,
            told=platform.observability,
        )
        self.topic_arn = alerts.topic.topic_arn
        # The workspace of collected metrics imports it, and may come and go.
        offer(self, self.topic_arn)
        messages = EventMessages(
            self, "Events", platform=platform, kinds=event_kinds(platform), bucket=storage.bucket, alerts=alerts
        )
        scans = self._scans(platform, images, alerts, messages)
        monthly_budget(self, platform)
        lustre = file_system.lustre
        resources = {
            FILE_SYSTEM: {"": lustre.file_system_id} if lustre else {},
            NAT_GATEWAY: {"": nat_gateway_id} if nat_gateway_id else {},
            RULE: {each.node.id: each.ref for each in messages.rules},
            QUEUED_RULE: {f"{scan.node.id}{each.node.id}": each.ref for scan in scans for each in scan.rules},
            QUOTA_CLASS: {each.partition("/")[0]: each for each in quota_classes(platform, catalogue)},
        }
        shown = []
        for each in cloudwatch_alarms(platform, catalogue):
            for alarm in metric_alarms(self, each, resources):
                alarm.add_alarm_action(actions.SnsAction(alerts.topic))
                if title := TITLES.get(each.name):
                    shown.append((title, alarm))
        file_system_id = lustre.file_system_id if lustre else ""
        dashboard(self, platform=platform, catalogue=catalogue, alarms=shown, file_system_id=file_system_id)

    def _scans(
        self, platform: Platform, images: Mapping[str, ImageSettings], alerts: Alerts, messages: EventMessages
    ) -> list[ScanAlarm]:
        """Create the rules on the scans of the images whose findings the platform file asks for."""
        found = []
        for image, settings in images.items():
            if severity := platform.of_image(image).image.scan.severity:
                words = [] if image == DEFAULT_IMAGE else image.split("-")
                found.append(
                    ScanAlarm(
                        self,
                        f"ImageScan{''.join(word.capitalize() for word in words)}",
                        platform=platform.name,
                        repository=settings.repository,
                        tag=settings.tag,
                        severity=severity,
                        alerts=alerts,
                        messages=messages,
                    )
                )
        return found
