"""The history of a run, derived from its events: attempts, valid steps, checkpoints, and outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Literal

from trainway.report.events import CheckpointWritten, End, IntervalChosen, RunEvent, Start, Step

Outcome = Literal["finished", "stopped", "unfinished"]


@dataclass(frozen=True)
class Attempt:
    """One start of the process group, and its progress.

    `seconds` runs from the start event to the last event of the attempt. `superseded` counts the steps of earlier
    attempts that it discarded by resuming before them.
    """

    start: Start
    end: End | None
    last_step: int
    seconds: float
    superseded: int


@dataclass(frozen=True)
class Summary:
    """The key figures of a run. `steps` is the last step reached. The others are None if no step was recorded."""

    steps: int
    first_loss: float | None
    final_loss: float | None
    median_tokens_per_second: float | None
    median_step_seconds: float | None


@dataclass(frozen=True)
class History:
    """A run: its attempts in order of time, and the valid steps and checkpoints, each in order of step.

    `interval` is the newest interval between checkpoints that the job chose, or None if it chose none.
    """

    attempts: tuple[Attempt, ...]
    steps: tuple[Step, ...]
    checkpoints: tuple[CheckpointWritten, ...]
    interval: IntervalChosen | None = None

    @property
    def start(self) -> Start:
        """Return the start event of the last attempt."""
        return self.attempts[-1].start

    @property
    def last_step(self) -> int:
        """Return the last step that was reached, or 0."""
        return self.attempts[-1].last_step

    @property
    def seconds(self) -> float:
        """Return the seconds of training in all attempts, without the time between them."""
        return sum(attempt.seconds for attempt in self.attempts)

    @property
    def outcome(self) -> Outcome:
        """Return whether the run finished the job's steps, stopped before them, or ended without an end event."""
        end = self.attempts[-1].end
        if end is None:
            return "unfinished"
        return "finished" if end.step >= self.start.steps else "stopped"

    @property
    def resumes(self) -> list[int]:
        """Return the steps after which a later attempt of this run resumed, in order."""
        return sorted({a.start.resumed_from for a in self.attempts[1:] if a.start.resumed_from})

    @property
    def first_bad_step(self) -> int | None:
        """Return the first step whose loss is not a finite number, or None."""
        return next((step.step for step in self.steps if not math.isfinite(step.loss)), None)

    def summary(self) -> Summary:
        """Return the key figures, which fit on a line."""
        steps = self.steps
        return Summary(
            steps=self.last_step,
            first_loss=steps[0].loss if steps else None,
            final_loss=steps[-1].loss if steps else None,
            median_tokens_per_second=median(step.tokens_per_second for step in steps) if steps else None,
            median_step_seconds=median(step.step_seconds for step in steps) if steps else None,
        )


def make_history(events: Sequence[RunEvent]) -> History:
    """Return the history of events. The first event is a Start.

    The last line of a step is the valid one. An attempt that begins at an earlier step than the run had reached
    invalidates the later steps, even before it has repeated them, because their weights are gone.
    """
    attempts: list[Attempt] = []
    steps: dict[int, Step] = {}
    checkpoints: dict[int, CheckpointWritten] = {}
    interval: IntervalChosen | None = None
    before = events[0].time
    for event in events:
        # The clock of the host can be set back, and shows nothing of the time before that.
        seconds, before = max(0.0, event.time - before), event.time
        if isinstance(event, Start):
            begins_after = event.resumed_from or 0
            superseded = sum(step > begins_after for step in steps)
            steps = {number: step for number, step in steps.items() if number <= begins_after}
            checkpoints = {number: saved for number, saved in checkpoints.items() if number <= begins_after}
            attempts.append(Attempt(event, None, begins_after, 0.0, superseded))
            continue
        attempt = replace(attempts[-1], seconds=attempts[-1].seconds + seconds)
        if isinstance(event, Step):
            steps[event.step] = event
            attempt = replace(attempt, last_step=event.step)
        elif isinstance(event, CheckpointWritten):
            checkpoints[event.step] = event
        elif isinstance(event, IntervalChosen):
            interval = event
        elif isinstance(event, End):
            attempt = replace(attempt, end=event, last_step=event.step)
        attempts[-1] = attempt
    return History(
        tuple(attempts),
        tuple(step for _, step in sorted(steps.items())),
        tuple(saved for _, saved in sorted(checkpoints.items())),
        interval,
    )
