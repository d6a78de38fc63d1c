"""Find the ranks that work slower than the others, from what each rank reports of its own work."""

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import NamedTuple

# A straggler takes at least this part longer than the median rank. GPUs of one model differ by some percent.
_LEAST_EXCESS = 0.10
# With enough ranks to know how much they differ, a straggler is also this many standard deviations slower.
_DEVIATIONS, _RANKS_WITH_A_SPREAD = 4, 8
# The standard deviation of normally distributed numbers, divided by their median absolute deviation (read 2026-11-29):
# https://docs.scipy.org/doc/scipy-1.8.0/reference/generated/scipy.stats.median_absolute_deviation.html
_DEVIATION_OF_MEDIAN_DEVIATION = 1.4826
# A rank is named when this many of its reports in a row are slow, and until this many in a row are not.
REPORTS_IN_A_ROW = 2
# Stragglers that a sentence names one by one.
_NAMED = 8


@dataclass(frozen=True)
class LocalWork:
    """What a rank reports of the work that it did without the others, in some consecutive steps."""

    rank: int
    host: str
    local_rank: int
    device: str
    stage: int
    """Stage of the pipeline. Stages have different work, so only ranks of one stage are compared."""
    first_step: int
    last_step: int
    began: float
    """When the first of the steps was reported, in seconds since the epoch."""
    seconds: dict[str, float]
    """Median seconds of each phase in a step."""

    @property
    def total(self) -> float:
        """Return the seconds of all phases."""
        return sum(self.seconds.values())

    def encoded(self) -> str:
        """Return the report as it is in the store."""
        return json.dumps(asdict(self))

    @classmethod
    def decoded(cls, value: bytes) -> "LocalWork":
        """Return the report that the store has."""
        return cls(**json.loads(value))


@dataclass(frozen=True)
class Straggler:
    """A rank that works slower than the others, and the phase with most of the difference."""

    rank: int
    host: str
    local_rank: int
    device: str
    phase: str
    ratio: float
    """Seconds of the rank's work, divided by those of the median rank."""
    since_step: int
    since: float
    """Time in seconds since the epoch."""


class Streak(NamedTuple):
    """Reports in a row in which a rank was slow, and those since then in which it was not."""

    straggler: Straggler
    reports: int
    misses: int

    @property
    def is_named(self) -> bool:
        """Return whether the rank was slow for long enough."""
        return self.reports >= REPORTS_IN_A_ROW


def slow_ranks(works: Sequence[LocalWork]) -> list[Straggler]:
    """Return the ranks that are slower than the median rank of their stage, in the order of the ranks."""
    stages = defaultdict[int, list[LocalWork]](list)
    for work in works:
        stages[work.stage].append(work)
    found = [straggler for stage in stages.values() for straggler in _slow_ranks_of_stage(stage)]
    return sorted(found, key=lambda each: each.rank)


def _slow_ranks_of_stage(works: Sequence[LocalWork]) -> list[Straggler]:
    totals = [work.total for work in works]
    # The lower median is that of a good rank, also if one of two ranks is slow.
    usual = statistics.median_low(totals)
    limit = usual * (1 + _LEAST_EXCESS)
    if len(works) >= _RANKS_WITH_A_SPREAD:
        deviation = _DEVIATION_OF_MEDIAN_DEVIATION * statistics.median_low(abs(total - usual) for total in totals)
        limit = max(limit, usual + _DEVIATIONS * deviation)
    if usual <= 0:
        return []
    phases = {phase: statistics.median_low(work.seconds[phase] for work in works) for phase in works[0].seconds}
    return [
        Straggler(
            work.rank,
            work.host,
            work.local_rank,
            work.device,
            max(phases, key=lambda phase: work.seconds[phase] - phases[phase]),
            work.total / usual,
            work.first_step,
            work.began,
        )
        for work in works
        if work.total > limit
    ]


def continued(streaks: Mapping[int, Streak], slow: Sequence[Straggler]) -> dict[int, Streak]:
    """Return the streaks of the ranks after a report in which the ranks `slow` were slow."""
    after = dict[int, Streak]()
    for rank, before in streaks.items():
        # A rank that is not named yet begins anew.
        if before.is_named and before.misses + 1 < REPORTS_IN_A_ROW:
            after[rank] = before._replace(misses=before.misses + 1)
    for each in slow:
        earlier = streaks.get(each.rank, Streak(each, 0, 0))
        first = earlier.straggler
        since = replace(each, since_step=first.since_step, since=first.since)
        after[each.rank] = Streak(since, earlier.reports + 1, 0)
    return after


def named(streaks: Mapping[int, Streak]) -> list[Straggler]:
    """Return the stragglers that have been slow for long enough, in the order of their ranks."""
    return [streaks[rank].straggler for rank in sorted(streaks) if streaks[rank].is_named]


def straggler_sentence(stragglers: Sequence[Straggler]) -> str:
    """Return a sentence that names stragglers, or says that there are none any more."""
    if not stragglers:
        return "no rank is slower than the others any more"
    told = [_told(each) for each in stragglers[:_NAMED]]
    rest = [f"{len(stragglers) - _NAMED} more ranks are slow"] if len(stragglers) > _NAMED else []
    return "; ".join(told + rest)


def _told(each: Straggler) -> str:
    where = f"host {each.host}, local rank {each.local_rank}, {each.device}"
    since = datetime.fromtimestamp(each.since, UTC).isoformat(timespec="seconds")
    work = f"its work takes {each.ratio:.2f} times that of the median rank, most of the difference in {each.phase}"
    return f"rank {each.rank} ({where}) is slow since step {each.since_step} ({since}): {work}"
