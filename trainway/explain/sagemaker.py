"""Evidence from SageMaker about a training job: the DescribeTrainingJob response, as events.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from trainway.explain.evidence import Evidence, JobEvent

_TROUBLE = frozenset({"Failed", "Interrupted", "MaxRuntimeExceeded", "MaxWaitTimeExceeded", "Stopped"})


def sagemaker_evidence(description: Mapping[str, Any]) -> Evidence:
    """Return the failure reason of a training job, and its secondary status transitions that report an error."""
    subject = f"training job {description['TrainingJobName']}"
    status = description.get("TrainingJobStatus")
    events = []
    if reason := description.get("FailureReason"):
        events.append(JobEvent("sagemaker", "Failed", reason, subject, time=_time(description.get("TrainingEndTime"))))
    for each in description.get("SecondaryStatusTransitions", ()):
        if each["Status"] in _TROUBLE - {"Failed"}:
            message = each.get("StatusMessage", "")
            events.append(JobEvent("sagemaker", each["Status"], message, subject, time=_time(each.get("StartTime"))))
    ended = {"Completed": True, "Failed": False}.get(str(status))
    return Evidence(events=tuple(events), succeeded=ended)


def _time(value: str | datetime | None) -> datetime | None:
    """Return a time in UTC. boto3 gives a datetime, the AWS CLI text."""
    if value is None or isinstance(value, datetime):
        return value
    return datetime.fromisoformat(value).astimezone(UTC)
