"""Measure programs that take turns, and compare them pair by pair.

Other work on a machine comes and goes within seconds. Programs that run in turns share it, so the ratio of two
neighboring turns is steadier than the ratio of two averages. The order is reversed every second round (A B, B A, ...),
so that no program always runs first. Quartiles say what the machine lets the figures decide.
"""

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median, quantiles
from typing import Any, Self, TypeVar

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Spread:
    """The median and the quartiles of repeated measurements of one figure."""

    median: float
    lower: float
    """The first quartile."""
    upper: float
    """The third quartile."""
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Self:
        """Return the spread of at least two values."""
        lower, _, upper = quantiles(values, n=4, method="inclusive")
        return cls(median(values), lower, upper, len(values))

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the spread that a result file has."""
        return cls(**document)

    def document(self) -> dict[str, Any]:
        """Return the spread for a result file, in six digits."""
        return {name: float(f"{value:.6g}") if name != "count" else value for name, value in asdict(self).items()}


def take_turns(programs: Mapping[str, Callable[[], Reading]], rounds: int) -> dict[str, list[Reading]]:
    """Call every program once in each round, in reverse order in every second one. Return what each returned."""
    found: dict[str, list[Reading]] = {name: [] for name in programs}
    for number in range(rounds):
        for name in list(programs)[:: -1 if number % 2 else 1]:
            found[name].append(programs[name]())
    return found


def ratios(values: Sequence[float], of: Sequence[float]) -> Spread:
    """Return the spread of the ratios of neighboring turns: each of `values` over the one of `of` in its round."""
    return Spread.of([each / other for each, other in zip(values, of, strict=True)])


def verdict(spread: Spread, bound: float, at_least: bool, control: Spread | None = None) -> str:
    """Return whether a claim holds: `holds`, `does not hold`, or `not resolved`.

    A bound between the quartiles is not resolved. `control` is the ratio of a program to itself. If its quartiles do
    not include 1, the turns were not alike, and nothing is resolved.
    """
    if control and not control.lower <= 1 <= control.upper:
        return "not resolved"
    if spread.lower < bound < spread.upper:
        return "not resolved"
    return "holds" if (spread.median >= bound if at_least else spread.median <= bound) else "does not hold"


MARK = "seconds of the processor and by the clock: "
"""Prefix of each line in which a loop reports a step."""


class Turns:
    """Step hook that makes a loop wait for a line on standard input before each step."""

    def __init__(self) -> None:
        self._wait()

    def next(self) -> None:
        """Report the seconds of the step, and wait for the next turn."""
        processor, wall = time.process_time() - self._processor, time.perf_counter() - self._wall
        print(f"{MARK}{processor} {wall}", flush=True)
        self._wait()

    def _wait(self) -> None:
        # Wait before the first step, too. Otherwise the loop computes during the turns of the other loops.
        sys.stdin.readline()
        self._processor, self._wall = time.process_time(), time.perf_counter()
