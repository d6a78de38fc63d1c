"""`observability`: metrics and alarms."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainway.spec.sections.fields import Email
from trainway.spec.values import Section


class Observability(Section):
    """Metrics of the platform, and who is notified of alarms."""

    metrics: Literal["cloudwatch"] = Field("cloudwatch", description="System that stores metrics and shows dashboards.")
    notify: Email | None = Field(None, description="Email address for alarms. AWS sends it a confirmation request.")
