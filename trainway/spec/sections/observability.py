"""`observability`: what is watched."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainway.spec.fields import Email, Section


class Observability(Section):
    """What is watched, and who hears of it."""

    metrics: Literal["cloudwatch"] = Field("cloudwatch", description="Where metrics and dashboards live.")
    notify: Email | None = Field(None, description="An e-mail address that alarms go to; AWS asks it to confirm once.")
