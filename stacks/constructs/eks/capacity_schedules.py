"""Schedules that add the nodes of a Capacity Block at its start, and drain them before its end."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from stacks.constructs.eks.eks_cluster import EksCluster
from stacks.constructs.iam.acknowledge import acknowledge
from stacks.constructs.iam.permissions import Permission, grant, needs_policies
from stacks.constructs.iam.trust import service
from trainway.spec.capacity.capacity_times import capacity_times, failed_calls_queue
from trainway.spec.sections.node_group import NodeGroup

# A universal target: EventBridge Scheduler calls the API itself, with the arguments of `input`.
# https://docs.aws.amazon.com/scheduler/latest/UserGuide/managing-targets-universal.html (read 2026-11-22)
SCALE = "aws-sdk:eks:updateNodegroupConfig"
# The maxima of Scheduler for the time and the number of attempts.
# https://docs.aws.amazon.com/scheduler/latest/APIReference/API_RetryPolicy.html (read 2026-11-22)
LONGEST_RETRY = timedelta(days=1)
MOST_ATTEMPTS = 185


class CapacitySchedules(Construct):
    """Two schedules for each node group whose Capacity Block has times, and a queue for calls that failed for good.

    The template of such a group has no nodes. CloudFormation changes their number only if the template's number
    changes, so that a deploy while the block runs leaves them alone. The drain evicts each pod: a job gets SIGTERM,
    saves a checkpoint, and ends.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: str,
        cluster: EksCluster,
        node_groups: Mapping[str, eks.CfnNodegroup],
        groups: tuple[NodeGroup, ...],
    ) -> None:
        super().__init__(scope, id)
        failed = sqs.Queue(
            self,
            "Failed",
            # Another stack's alarm refers to the queue by its name. An export would block a file without Capacity
            # Blocks.
            queue_name=failed_calls_queue(platform),
            encryption=sqs.QueueEncryption.SQS_MANAGED,
            enforce_ssl=True,
            retention_period=cdk.Duration.days(14),
        )
        acknowledge(failed, "It is itself the queue for what failed.", "AwsSolutions-SQS3")
        role = iam.Role(self, "Role", assumed_by=service("scheduler"))
        grant(
            role,
            Permission(("eks:UpdateNodegroupConfig",), tuple(each.attr_arn for each in node_groups.values())),
            Permission(("sqs:SendMessage",), (failed.queue_arn,)),
        )
        for group in groups:
            times = capacity_times(group)
            if times is None:
                continue
            name = "".join(part.capitalize() for part in group.name.split("-"))
            # A retry after the end of the block would add nodes without capacity.
            for what, at, nodes, retry in (
                ("Raise", times.raised, group.count, times.drained - times.raised),
                ("Drain", times.drained, 0, times.end - times.drained),
            ):
                schedule = _schedule(
                    self,
                    f"{name}{what}",
                    at=at,
                    description=f"Set node group {group.name} to {nodes} nodes at {at:%Y-%m-%d %H:%M} UTC.",
                    arguments={
                        "ClusterName": cluster.name,
                        "NodegroupName": node_groups[group.name].attr_nodegroup_name,
                        "ScalingConfig": {"DesiredSize": nodes},
                    },
                    role=role,
                    failed=failed,
                    retry=retry,
                )
                needs_policies(schedule, role)


def _schedule(
    scope: Construct,
    id: str,
    *,
    at: datetime,
    description: str,
    arguments: Mapping[str, object],
    role: iam.Role,
    failed: sqs.Queue,
    retry: timedelta,
) -> scheduler.CfnSchedule:
    target = scheduler.CfnSchedule.TargetProperty(
        arn=f"arn:{cdk.Aws.PARTITION}:scheduler:::{SCALE}",
        role_arn=role.role_arn,
        input=cdk.Stack.of(scope).to_json_string(dict(arguments)),
        retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
            maximum_event_age_in_seconds=int(min(retry, LONGEST_RETRY).total_seconds()),
            maximum_retry_attempts=MOST_ATTEMPTS,
        ),
        dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(arn=failed.queue_arn),
    )
    return scheduler.CfnSchedule(
        scope,
        id,
        description=description,
        schedule_expression=f"at({at:%Y-%m-%dT%H:%M:%S})",
        schedule_expression_timezone="UTC",
        flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
        target=target,
    )
