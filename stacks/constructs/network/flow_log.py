"""A log of the traffic that the network rejected, kept for a month."""

from __future__ import annotations

from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant
from stacks.constructs.iam.trust import service
from stacks.constructs.monitoring.log_group import log_group, use_log_key


def flow_log(scope: Construct, *, vpc_id: str) -> None:
    """Log only rejected traffic: enough to find a missing rule, without paying for every RDMA handshake."""
    group = log_group(scope, "FlowLogs", retention=logs.RetentionDays.ONE_MONTH)
    role = iam.Role(scope, "FlowLogRole", assumed_by=service("vpc-flow-logs"))
    deliver = ("logs:CreateLogStream", "logs:PutLogEvents", "logs:DescribeLogStreams")
    grant(role, Permission(deliver, (group.log_group_arn,)), use_log_key(scope))
    ec2.CfnFlowLog(
        scope,
        "FlowLog",
        resource_type="VPC",
        resource_id=vpc_id,
        traffic_type="REJECT",
        log_group_name=group.log_group_name,
        deliver_logs_permission_arn=role.role_arn,
    )
