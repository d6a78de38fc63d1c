"""`budget`: what the platform may cost in a month, and who is told."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainway.spec.sections.fields import Email
from trainway.spec.values import Section

# NotificationWithSubscribersList of the API's model (botocore 1.44.5). One of them is that of the forecast.
MOST_NOTIFICATIONS = 10


class Budget(Section):
    """A monthly budget of AWS Budgets on the costs that have a tag of the platform. It notifies, and stops nothing."""

    monthly_usd: float = Field(gt=0, description="Budget of a month in US dollars, for example 20000.")
    notify: Email | None = Field(
        None, description="Email address that AWS Budgets writes to. Default: that of `observability.notify`."
    )
    at_percent: tuple[Annotated[float, Field(gt=0, le=1000)], ...] = Field(
        (80, 100),
        min_length=1,
        max_length=MOST_NOTIFICATIONS - 1,
        description="Percentages of the budget at which AWS Budgets writes, for what was spent.",
    )
    forecast: bool = Field(
        True, description="Write as well when the forecast of the month is above the budget. Default: true."
    )
    tag: str | None = Field(
        None,
        description="Key of `tags` whose costs the budget counts. The tag must be active as a cost allocation tag. "
        "Default: the only tag of the file.",
    )
