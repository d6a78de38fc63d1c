"""When a run had its nodes: its attempts, and the times between them, by its record and its state.

Jobs write states, with the clocks of their nodes. An attempt is therefore cut to the time from the launch to the last
write of the state by the clock of S3, and begins after the attempt before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from typing import Literal

from trainway.launch.registry.state import OLD_SECONDS, AttemptState, Ending
from trainway.launch.registry.store import RecordedRun

EndingSpan = Ending | Literal["lost"]
Pause = Literal["waiting", "restart", "stopped"]
# Clocks of nodes that are synchronized differ by less.
_SAME_CLOCK_SECONDS = 60.0


@dataclass(frozen=True)
class AttemptSpan:
    """An attempt with its time span in seconds since the epoch.

    `stepping` and `productive` are seconds of it, and None if the program reported no steps. An attempt is `lost` if it
    wrote no end, and does not write any more.
    """

    number: int
    begin: float
    end: float
    ending: EndingSpan
    stepping: float | None
    productive: float | None
    reason: str
    exit_status: int | None

    @property
    def seconds(self) -> float:
        """Return the length of the attempt in seconds."""
        return self.end - self.begin


@dataclass(frozen=True)
class PauseSpan:
    """A time without an attempt, in seconds since the epoch.

    The run was `waiting` from a launch until its program began, in a `restart` after a failure, or `stopped`.
    """

    kind: Pause
    begin: float
    end: float


@dataclass(frozen=True)
class Spans:
    """The attempts and pauses of a run. `unknown` counts the attempts whose times the state does not have.

    `corrected` says whether a clock of the run was wrong by more than a minute.
    """

    attempts: tuple[AttemptSpan, ...]
    pauses: tuple[PauseSpan, ...]
    unknown: int
    corrected: bool


def spans_of(run: RecordedRun, now: float) -> Spans:
    """Return the attempts and pauses of a run until `now`, in seconds since the epoch."""
    state = run.state
    if state is None:
        return Spans((), (), 0, corrected=False)
    launched = datetime.fromisoformat(run.record.started).timestamp()
    last_write = min(run.changed.timestamp(), now)
    told = list(state.attempts)
    if (ahead := told[-1].written - last_write) > _SAME_CLOCK_SECONDS:
        told[-1] = replace(told[-1], started=told[-1].started - ahead, written=told[-1].written - ahead)
    runs_now = state.state == "running" and now - last_write < OLD_SECONDS
    spans = list[AttemptSpan]()
    corrected, before = ahead > _SAME_CLOCK_SECONDS, launched
    for index, attempt in enumerate(told):
        still = runs_now and index == len(told) - 1
        limit = now if runs_now else last_write
        begin = min(max(attempt.started, before), limit)
        end = max(begin, limit if still else min(attempt.written, limit))
        cut = max(abs(begin - attempt.started), 0.0 if still else abs(attempt.written - end))
        corrected = corrected or cut > _SAME_CLOCK_SECONDS
        ending: EndingSpan = "lost" if attempt.state == "running" and not still else attempt.state
        spans.append(_span(attempt, begin, end, ending, told[index + 1 :]))
        before = end
    numbers = {each.number for each in spans}
    return Spans(tuple(spans), _pauses(run, launched, spans), max(0, state.attempt - len(numbers)), corrected)


def _span(
    attempt: AttemptState, begin: float, end: float, ending: EndingSpan, later: Sequence[AttemptState]
) -> AttemptSpan:
    """Return an attempt. Steps that a later attempt took again are not productive."""
    stepping = productive = None
    if attempt.stepping is not None:
        stepping = min(attempt.stepping, end - begin)
        useful = stepping if attempt.productive is None else min(attempt.productive, stepping)
        productive = useful * _kept_share(attempt, later)
    return AttemptSpan(
        attempt.attempt, begin, end, ending, stepping, productive, attempt.reason or "", attempt.exit_status
    )


def _kept_share(attempt: AttemptState, later: Sequence[AttemptState]) -> float:
    """Return the share of an attempt's steps that no later attempt took again."""
    if attempt.first_step is None or attempt.step is None or attempt.step < attempt.first_step:
        return 1.0
    again = min((each.first_step for each in later if each.first_step is not None), default=attempt.step + 1)
    steps = attempt.step - attempt.first_step + 1
    return min(max(0, again - attempt.first_step), steps) / steps


def _pauses(run: RecordedRun, launched: float, attempts: Sequence[AttemptSpan]) -> tuple[PauseSpan, ...]:
    """Return the times between the attempts. The record has the times of the first launch and of the newest one."""
    found = list[PauseSpan]()
    if attempts[0].number == 1:
        found.append(PauseSpan("waiting", launched, attempts[0].begin))
    newest = datetime.fromisoformat(run.record.launch["started"]).timestamp() if run.record.launch else launched
    for before, after in pairwise(attempts):
        kind: Pause = "restart" if before.ending in ("failed", "lost") else "stopped"
        again = newest if before.end < newest < after.begin else after.begin
        found += [PauseSpan(kind, before.end, again), PauseSpan("waiting", again, after.begin)]
    return tuple(each for each in found if each.end > each.begin)
