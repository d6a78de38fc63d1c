"""A month is a month of UTC that has begun."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from trainway.report.usage.month import month_of
from trainway.spec.errors import UsageError


@pytest.mark.parametrize(
    "text", ["", "2024", "2024-2", "2024-13", "2024-00", "24-02", "2024-02-01", "٢٠٢٤-02", "0000-01"]
)
def test_what_is_no_month_is_told_so(text: str) -> None:
    with pytest.raises(UsageError, match="it is not a month"):
        month_of(text, datetime(2024, 6, 1, tzinfo=UTC))


def test_a_month_that_has_not_begun_is_refused_by_the_clock_of_utc() -> None:
    # In this zone, it is March already.
    now = datetime.fromisoformat("2024-03-01T01:00:00+02:00")
    with pytest.raises(UsageError, match="has not begun: it is 2024-02-29 23:00 in UTC"):
        month_of("2024-03", now)
    assert month_of("2024-02", now).text == "2024-02"
