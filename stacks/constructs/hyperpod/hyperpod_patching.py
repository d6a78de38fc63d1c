"""How HyperPod updates the image of a group's nodes."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker

from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from trainway.spec.sections.hyperpod import HyperPod, Patching
from trainway.spec.sections.node_group import NodeGroup

CfnCluster = sagemaker.CfnCluster
# The strategies of CloudFormation's schema (cfn-lint 1.58.0). HyperPod's API has a third one, DrainFirst, which evicts
# pods (botocore 1.44.5, both read 2026-11-22).
STRATEGIES = {"when-idle": "WhenIdle", "when-all-idle": "WhenAllIdle"}


def patching(settings: HyperPod, group: NodeGroup | None, *, kubernetes: bool) -> dict[str, Any]:
    """Return the properties of an instance group for image updates. Empty without `patching`.

    With a strategy, nodes with an image of your own are not updated, because a strategy follows a line of HyperPod's
    images.
    """
    asked = settings.patching
    if asked is None:
        return {}
    if asked.schedule:
        return {"scheduled_update_config": _by_schedule(asked, asked.schedule, in_batches=kubernetes)}
    if asked.strategy is None or (group and group.image_id):
        return {}
    return {"auto_patch_config": CfnCluster.AutoPatchConfigProperty(patching_strategy=STRATEGIES[asked.strategy])}


def let_read_alarms(role: iam.Role, settings: HyperPod) -> None:
    """Let the nodes' execution role read the alarms that roll an update back.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-release-ami-update.html (read 2026-11-21)
    """
    names = settings.patching.rollback_alarms if settings.patching else ()
    if names:
        arns = tuple(regional_arn("cloudwatch", f"alarm:{name}") for name in names)
        grant(role, Permission(("cloudwatch:DescribeAlarms",), arns))


def _by_schedule(
    asked: Patching, schedule: str, *, in_batches: bool
) -> sagemaker.CfnCluster.ScheduledUpdateConfigProperty:
    """Return the settings of a scheduled update: in batches with alarms, or under Slurm all nodes of a group."""
    if not in_batches:
        return CfnCluster.ScheduledUpdateConfigProperty(schedule_expression=schedule)
    batch = CfnCluster.CapacitySizeConfigProperty(type="INSTANCE_COUNT", value=asked.batch)
    alarms = [CfnCluster.AlarmDetailsProperty(alarm_name=name) for name in asked.rollback_alarms]
    return CfnCluster.ScheduledUpdateConfigProperty(
        schedule_expression=schedule,
        deployment_config=CfnCluster.DeploymentConfigProperty(
            rolling_update_policy=CfnCluster.RollingUpdatePolicyProperty(
                maximum_batch_size=batch, rollback_maximum_batch_size=batch
            ),
            wait_interval_in_seconds=asked.wait_minutes * 60,
            auto_rollback_configuration=alarms or None,
        ),
    )
