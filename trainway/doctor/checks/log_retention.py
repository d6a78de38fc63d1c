"""The log groups that AWS created for the platform."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.doctor.checks.table import check
from trainway.preflight.check import Inquiry
from trainway.preflight.finding import AccountFinding, warning
from trainway.spec.observability.log_groups import LOG_DAYS, log_group_prefixes


@check("logs:DescribeLogGroups")
def log_retention(inquiry: Inquiry) -> Iterator[AccountFinding]:
    """The log groups that AWS created for the platform delete what is old."""
    for prefix in log_group_prefixes(inquiry.platform):
        answer = inquiry.aws.ask("logs", "describe_log_groups", logGroupNamePrefix=prefix) or {}
        for group in answer.get("logGroups", []):
            if "retentionInDays" not in group:
                name = group["logGroupName"]
                yield warning(
                    f"the logs in {name} stay for ever",
                    why="AWS created the group, without retention. Every month, all logs that it ever had are paid for",
                    fix=f"aws logs put-retention-policy --log-group-name {name} --retention-in-days {LOG_DAYS} "
                    f"--region {inquiry.aws.region}",
                )
