"""`observability`: metrics and alarms."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from trainway.spec.sections.fields import Email
from trainway.spec.values import Matches, Section

# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_AIMlflowConfig.html (read 2026-11-27)
MlflowArn = Annotated[
    str,
    Matches(
        r"arn:aws[a-z-]*:sagemaker:[a-z0-9-]+:\d{12}:mlflow-(app|tracking-server)/[^\s*]+",
        "it is not the ARN of an MLflow App or of a tracking server of SageMaker",
        "write it as in arn:aws:sagemaker:us-west-2:111122223333:mlflow-app/app-ABC",
    ),
]


class Observability(Section):
    """Metrics of the platform, and who is notified of alarms."""

    metrics: Literal["cloudwatch"] = Field("cloudwatch", description="System that stores metrics and shows dashboards.")
    notify: Email | None = Field(None, description="Email address for alarms. AWS sends it a confirmation request.")
    mlflow: MlflowArn | None = Field(
        None,
        description="ARN of an MLflow App or a tracking server of SageMaker. All jobs may report to it, as "
        "docs/trackers.md shows. Default: none.",
    )
