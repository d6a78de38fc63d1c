"""Tags of SageMaker training jobs, by which IAM policies identify the owner of a job."""

from __future__ import annotations

from typing import Final

PLATFORM_TAG: Final = "trainway:platform"
RUN_TAG: Final = "trainway:run"
TEAM_TAG: Final = "trainway:team"
