"""CloudWatch's form of an alarm on lines of a log group."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import service
from trainway.monitoring.alarm import Alarm, Lines

CfnLogAlarm = cloudwatch.CfnLogAlarm
# CloudWatch runs a query once a minute at most. Lines arrive some seconds after they are written, so each query looks
# back over two minutes, and a line may count twice.
EVERY, LOOKS_BACK_SECONDS = "rate(1 minute)", 120
SHOWN_LINES = 10


class LogAlarm(Construct):
    """An alarm that runs a query of CloudWatch Logs Insights, and sends the newest lines that it finds to a topic.

    One role runs the query, and another one reads its result for the message.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_PutLogAlarm.html, and the roles as in
    https://github.com/aws/aws-cdk/blob/9338258c/packages/aws-cdk-lib/aws-cloudwatch/test/log-alarm.test.ts and
    https://github.com/Yoshiki0705/fsxn-observability-integrations/blob/7c0c93ac/shared/templates/cloudwatch-log-alarm.yaml
    (all read 2026-12-01)
    """

    def __init__(self, scope: Construct, alarm: Alarm, *, log_group: str, topic: str) -> None:
        super().__init__(scope, alarm.name)
        (condition,) = alarm.conditions
        if not isinstance(condition, Lines):
            raise TypeError(f"{alarm.name} is not on lines of logs")
        lines = regional_arn("logs", f"log-group:{log_group.rpartition('/')[0]}/*")
        because = "HyperPod names the log group after the ID of the cluster."
        query = iam.Role(self, "QueryRole", assumed_by=service("logs"))
        grant(
            query,
            Permission(("logs:GetQueryResults", "logs:StartQuery"), (lines,), because=because),
            Permission(("logs:StopQuery",), ("*",), because="The action has no resource-level permissions."),
        )
        reader = iam.Role(self, "LinesRole", assumed_by=service("cloudwatch"))
        grant(reader, Permission(("logs:GetQueryResults",), (lines,), because=because))
        self.resource = CfnLogAlarm(
            self,
            "Alarm",
            alarm_description=alarm.summary,
            alarm_actions=[topic],
            comparison_operator="GreaterThanThreshold",
            threshold=0,
            query_results_to_evaluate=1,
            query_results_to_alarm=1,
            treat_missing_data="notBreaching",
            action_log_line_count=SHOWN_LINES,
            action_log_line_role_arn=reader.role_arn,
            scheduled_query_configuration=CfnLogAlarm.ScheduledQueryConfigurationProperty(
                query_string=f"fields @timestamp, @logStream, @message | filter @message like /{condition.word}/",
                aggregation_expression=f"count(*) by {condition.by}",
                log_group_identifiers=[log_group],
                scheduled_query_role_arn=query.role_arn,
                schedule_configuration=CfnLogAlarm.ScheduleConfigurationProperty(
                    schedule_expression=EVERY, start_time_offset=LOOKS_BACK_SECONDS
                ),
            ),
        )
        needs_policies(self.resource, query, reader)
