"""Where the wall time of a run went. Each second counts once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from trainway.report.events import End, EvaluationDone, Hang, RunEvent, Start, Step

Use = Literal[
    "productive",
    "lost",
    "data",
    "checkpoint",
    "evaluation",
    "startup",
    "load",
    "detection",
    "restart",
    "stopped",
    "other",
]
USES: dict[Use, str] = {
    "productive": "steps whose result the run has kept",
    "lost": "steps that were skipped, or taken again after a restart",
    "data": "waiting for data in a step",
    "checkpoint": "waiting for a checkpoint in a step",
    "evaluation": "evaluations",
    "startup": "the start of the processes until the first step, without the load of a checkpoint",
    "load": "loading checkpoints",
    "detection": "hangs, until the watchdog ended them",
    "restart": "from the last step that an attempt reported until the next attempt began",
    "stopped": "between an orderly stop and the next attempt",
    "other": "everything else, for example compilation and the last checkpoint",
}


@dataclass(frozen=True)
class Goodput:
    """The seconds of a run by use. They add up to `seconds`, from its first process to its last event."""

    seconds: float
    by_use: dict[Use, float]

    @property
    def share(self) -> float:
        """Return the share of the seconds that are productive. Time in which the run was stopped does not count."""
        running = self.seconds - self.by_use["stopped"]
        return self.by_use["productive"] / running if running > 0 else 0.0


def goodput(events: Sequence[RunEvent]) -> Goodput:
    """Return where the time of a run went. The first event is a Start.

    A step is lost if a later attempt resumed before it. The part of a step that was under way when an attempt ended
    belongs to the restart, because nothing says when it stopped to be of use.
    """
    by_use: dict[Use, float] = dict.fromkeys(USES, 0.0)
    attempts = list(_attempts(events))
    previous: _Attempt | None = None
    for number, attempt in enumerate(attempts):
        if previous is not None:
            between = max(0.0, attempt.begin - previous.last)
            by_use["stopped" if previous.is_orderly else "restart"] += between
        kept = min((later.resumed_from for later in attempts[number + 1 :]), default=None)
        for use, seconds in attempt.uses(kept).items():
            by_use[use] += seconds
        previous = attempt
    return Goodput(sum(by_use.values()), by_use)


@dataclass(frozen=True)
class _Attempt:
    """The events of one attempt, which begins when its processes do."""

    start: Start
    events: tuple[RunEvent, ...]

    @property
    def begin(self) -> float:
        return self.start.time - self.start.startup_seconds

    @property
    def last(self) -> float:
        return self.events[-1].time if self.events else self.start.time

    @property
    def resumed_from(self) -> int:
        return self.start.resumed_from or 0

    @property
    def is_orderly(self) -> bool:
        return any(isinstance(event, End) for event in self.events)

    def uses(self, kept: int | None) -> dict[Use, float]:
        """Return the seconds of this attempt by use. Steps after `kept` were lost; None keeps all."""
        by_use: dict[Use, float] = dict.fromkeys(USES, 0.0)
        by_use["load"] = self.start.load_seconds
        by_use["startup"] = self.start.startup_seconds - self.start.load_seconds
        for event in self.events:
            if isinstance(event, Step):
                is_lost = event.skipped or (kept is not None and event.step > kept)
                wait, save = event.breakdown.data_wait, event.breakdown.checkpoint
                by_use["data"] += wait
                by_use["checkpoint"] += save
                by_use["lost" if is_lost else "productive"] += event.step_seconds - wait - save
            elif isinstance(event, EvaluationDone):
                by_use["evaluation"] += event.seconds
            elif isinstance(event, Hang):
                by_use["detection"] += event.seconds
        # Steps are measured by a monotonic clock, and events are written at the time of day, which can be set back.
        by_use["other"] = max(0.0, self.last - self.begin - sum(by_use.values()))
        return by_use


def _attempts(events: Sequence[RunEvent]) -> Iterator[_Attempt]:
    begins = [number for number, event in enumerate(events) if isinstance(event, Start)]
    for begin, end in zip(begins, [*begins[1:], len(events)], strict=True):
        start = events[begin]
        assert isinstance(start, Start)
        yield _Attempt(start, tuple(events[begin + 1 : end]))
