"""Simulate how a run that saves checkpoints, is interrupted, and restarts spends its time.

The events are saves, the ends of asynchronous writes, and interruptions. A run has no spare nodes, so it trains on all
its nodes or waits. After an interruption during a restart, the restart begins again. After an interruption, the run
repeats the steps since its newest complete checkpoint. Each second counts once, under one of the uses that
`trainway.report.goodput` has for measured runs.
"""

import math
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

USES = ("productive", "lost", "data", "checkpoint", "startup", "load", "detection", "restart", "other")


@dataclass(frozen=True)
class Costs:
    """The seconds that the parts of a run take."""

    step_seconds: float
    """A step without the waits below."""
    data_seconds: float
    """The wait for data in a step."""
    stall_seconds: float
    """The pause of training for a save."""
    write_seconds: float
    """The time from the beginning of a save until the checkpoint is complete, which is at least the pause."""
    detection_seconds: float
    """The time from the beginning of a hang until the ranks are ended."""
    restart_seconds: float
    """The time from the end of the ranks until the next ones begin."""
    startup_seconds: float
    """The time from the beginning of the ranks to the first step, without the load of a checkpoint."""
    load_seconds: float
    """The load of a checkpoint."""


class Interruption(NamedTuple):
    """An interruption, in seconds since the beginning of the run. A rank ends, or hangs until it is detected."""

    seconds: float
    is_hang: bool = False


def interruptions(between: float, hangs: float, seed: int) -> Iterator[Interruption]:
    """Yield interruptions without end, `between` seconds apart on average. `hangs` is the share of hangs among them."""
    drawn, now = random.Random(seed), 0.0
    while True:
        now += drawn.expovariate(1 / between)
        yield Interruption(now, drawn.random() < hangs)


def simulate(costs: Costs, every: int, seconds: float, happens: Iterable[Interruption]) -> dict[str, float]:
    """Return the seconds of each use in a run of `seconds`. The run saves a checkpoint after every `every` steps."""
    run = _Run(costs, every, seconds, happens)
    run.spend("startup", costs.startup_seconds)
    while run.now < seconds:
        if run.is_interrupted:
            run.restart()
        else:
            run.take_steps_and_save()
    return run.spent


class _Run:
    """A run at the time `now`. `_step` is its newest step, and `_kept` is the step of its newest checkpoint."""

    def __init__(self, costs: Costs, every: int, seconds: float, happens: Iterable[Interruption]) -> None:
        self._costs, self._every, self._end = costs, every, seconds
        self._happens = iter(happens)
        self._next = next(self._happens, Interruption(math.inf))
        self.spent = dict.fromkeys(USES, 0.0)
        self.now, self.is_interrupted = 0.0, False
        self._step = self._kept = 0
        self._written = (0.0, 0)
        """The time at which the newest write is complete, and the step of its checkpoint."""

    def spend(self, use: str, seconds: float) -> bool:
        """Let time pass, at most until an interruption or the end of the run. Return whether all of it passed."""
        until = min(self.now + seconds, self._next.seconds, self._end)
        is_over = until == self.now + seconds
        self.spent[use] += until - self.now
        self.now = until
        if until == self._next.seconds:
            self.is_interrupted = True
        return is_over and not self.is_interrupted

    def take_steps_and_save(self) -> None:
        """Take the steps up to the next checkpoint, and begin to save it."""
        costs, begin = self._costs, self.now
        steps = self._every - self._step % self._every
        whole = costs.step_seconds + costs.data_seconds
        is_over = self.spend("productive", steps * whole)
        done = steps if is_over else min(steps, int((self.now - begin) / whole))
        # The time of an unfinished step does not count as productive, as in a measured run.
        self.spent["productive"] += done * costs.step_seconds - (self.now - begin)
        self.spent["data"] += done * costs.data_seconds
        self.spent["restart" if self.is_interrupted else "other"] += self.now - begin - done * whole
        self._step += done
        if not is_over:
            return
        # Only one checkpoint is saved at a time.
        if not self.spend("checkpoint", max(0.0, self._written[0] - self.now)):
            return
        self._complete()
        self._written = (self.now + costs.write_seconds, self._step)
        self.spend("checkpoint", costs.stall_seconds)

    def restart(self) -> None:
        """Lose the steps since the newest complete checkpoint, and start again from there."""
        hung, costs = self._next.is_hang, self._costs
        self._complete()
        lost = (self._step - self._kept) * costs.step_seconds
        self.spent["productive"] -= lost
        self.spent["lost"] += lost
        self._step, self._written = self._kept, (0.0, self._kept)
        self._next, self.is_interrupted = next(self._happens, Interruption(math.inf)), False
        phases = (
            ("detection", costs.detection_seconds if hung else 0.0),
            ("restart", costs.restart_seconds),
            ("startup", costs.startup_seconds),
            ("load", costs.load_seconds if self._kept else 0.0),
        )
        for use, seconds in phases:
            if not self.spend(use, seconds):
                return

    def _complete(self) -> None:
        if self._written[0] <= self.now:
            self._kept = self._written[1]


def expected_share(costs: Costs, every: int, between: float) -> float:
    """Return the productive share of a long run by Daly's closed form, for saves that are written while training waits.

    The share is the time of the steps of an interval, divided by the expected time until these steps and their save are
    done without an interruption: between * exp(down / between) * (exp((interval + stall) / between) - 1). `down` is the
    time from an interruption to the first step. The formula is Daly's complete cost function: see
    training/config/checkpoint_interval.py.
    """
    interval = every * (costs.step_seconds + costs.data_seconds)
    down = costs.restart_seconds + costs.startup_seconds + costs.load_seconds
    whole = between * math.exp(down / between) * math.expm1((interval + costs.stall_seconds) / between)
    return every * costs.step_seconds / whole
