"""A month of a report. Months are those of UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from trainway.spec.errors import usage_error

# States of runs have no earlier times.
_FIRST_YEAR = 1970


@dataclass(frozen=True)
class Month:
    """A month of UTC. `end` is the first moment after it."""

    text: str
    begin: datetime
    end: datetime

    def part(self, begin: float, end: float) -> float:
        """Return the seconds of a time span that are in the month. Its ends are in seconds since the epoch."""
        return max(0.0, min(end, self.end.timestamp()) - max(begin, self.begin.timestamp()))

    def has(self, moment: float) -> bool:
        """Return whether a moment is in the month."""
        return self.begin.timestamp() <= moment < self.end.timestamp()


def month_of(text: str, now: datetime) -> Month:
    """Return the month that a text names. Raises UsageError for another text, and for a month that has not begun."""
    this_month = f"{now.astimezone(UTC):%Y-%m}"
    found = re.fullmatch(r"(\d{4})-(\d{2})", text, re.ASCII)
    if found is None or not 1 <= int(found[2]) <= 12 or int(found[1]) < _FIRST_YEAR:
        fix = f"write the year and the month, for example --month {this_month}"
        raise usage_error(f"--month {text}", why="it is not a month", fix=fix)
    if text > this_month:
        why = f"the month has not begun: it is {now.astimezone(UTC):%Y-%m-%d %H:%M} in UTC"
        raise usage_error(f"--month {text}", why=why, fix=f"name a month until {this_month}")
    year, month = int(found[1]), int(found[2])
    begin = datetime(year, month, 1, tzinfo=UTC)
    return Month(text, begin, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC))
