"""Permissions of jobs to report to the MLflow of SageMaker that the platform file names."""

from __future__ import annotations

from stacks.constructs.iam.permissions import Permission
from trainway.spec.platform import Platform

# An MLflow App has one action for all calls:
# https://docs.aws.amazon.com/sagemaker/latest/dg/mlflow-app-setup-prerequisites-iam.html (read 2026-11-27). A tracking
# server has an action for each call:
# https://docs.aws.amazon.com/service-authorization/latest/reference/list_sagemaker-mlflow.html (read 2026-11-27)
_OF_APP = ("sagemaker:CallMlflowAppApi",)
_OF_SERVER = tuple(
    f"sagemaker-mlflow:{call}"
    for call in (
        "CreateExperiment",
        "CreateRun",
        "GetExperiment",
        "GetExperimentByName",
        "GetMetricHistory",
        "GetRun",
        "LogBatch",
        "LogMetric",
        "LogParam",
        "SearchExperiments",
        "SearchRuns",
        "SetTag",
        "UpdateRun",
    )
)


def mlflow_permissions(platform: Platform) -> list[Permission]:
    """Return the permissions to create runs in the MLflow of `observability.mlflow`, and to report to them."""
    arn = platform.observability.mlflow
    if arn is None:
        return []
    return [Permission(_OF_APP if ":mlflow-app/" in arn else _OF_SERVER, (arn,))]
