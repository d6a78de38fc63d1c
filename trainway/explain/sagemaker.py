"""Evidence from SageMaker about a training job: the DescribeTrainingJob response, as events.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_DescribeTrainingJob.html (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.explain.evidence import Evidence, JobEvent
from trainway.explain.shape import shaped, time

_TROUBLE = frozenset({"Failed", "Interrupted", "MaxRuntimeExceeded", "MaxWaitTimeExceeded", "Stopped"})
_DESCRIPTION = {
    "TrainingJobName": str,
    "TrainingJobStatus": str,
    "FailureReason": str,
    "TrainingEndTime": time,
    "SecondaryStatusTransitions": [{"Status": str, "StatusMessage": str, "StartTime": time}],
}


def sagemaker_evidence(description: Mapping[str, Any]) -> Evidence:
    """Return the failure reason of a training job, and its secondary status transitions that report an error."""
    description = shaped(description, _DESCRIPTION)
    subject = f"training job {description.get('TrainingJobName', '')}".strip()
    status = description.get("TrainingJobStatus")
    events = []
    if reason := description.get("FailureReason"):
        events.append(JobEvent("sagemaker", "Failed", reason, subject, time=description.get("TrainingEndTime")))
    for each in description.get("SecondaryStatusTransitions", ()):
        if each.get("Status") in _TROUBLE - {"Failed"}:
            message = each.get("StatusMessage", "")
            events.append(JobEvent("sagemaker", each["Status"], message, subject, time=each.get("StartTime")))
    ended = {"Completed": True, "Failed": False}.get(str(status))
    return Evidence(events=tuple(events), succeeded=ended)
