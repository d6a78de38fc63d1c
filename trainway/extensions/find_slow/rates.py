"""The rates that rates_program.py measured on the nodes of a job and between the nodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trainway.verify.rates_program import MARK

TFLOPS, GBPS = "TFLOP/s", "GB/s"


@dataclass(frozen=True)
class Rate:
    """A rate of one node, or between several nodes, in the unit of its measure.

    The first word of a measure is `gemm`, `memory`, `node`, `pair`, `half`, or `cluster`.
    """

    measure: str
    nodes: tuple[str, ...]
    value: float

    @property
    def unit(self) -> str:
        """The unit: TFLOP/s of products of matrices, otherwise GB/s of memory or of the bus bandwidth."""
        return unit_of(self.measure)


@dataclass(frozen=True)
class Rates:
    """The nodes, their rates, whether the program finished, and the size of the collectives of all nodes.

    `bytes` is that size.
    """

    nodes: tuple[str, ...] = ()
    rates: tuple[Rate, ...] = ()
    complete: bool = False
    bytes: int = 0

    def of(self, measure: str) -> tuple[Rate, ...]:
        """Return the rates of a measure."""
        return tuple(each for each in self.rates if each.measure == measure)

    def measures(self, *kinds: str) -> tuple[str, ...]:
        """Return the measures in the order of their measurement: all, or those whose first word is one of `kinds`."""
        names = dict.fromkeys(each.measure for each in self.rates)
        return tuple(name for name in names if not kinds or name.split()[0] in kinds)


def unit_of(measure: str) -> str:
    """Return the unit of a measure."""
    return TFLOPS if measure == "gemm" else GBPS


def in_digits(value: float) -> str:
    """Return a rate in four digits."""
    return f"{value:.4g}"


def rates_of_log(lines: Iterable[str], known: Mapping[str, str] | None = None) -> Rates:
    """Return the rates in the output of the program, which contains other lines. Ignore an incomplete line.

    `known` are the names of nodes by their hostnames, where the two differ.
    """
    names: tuple[str, ...] = ()
    size = 0
    rates: list[Rate] = []
    complete = False
    for document in _documents(lines):
        match document:
            case {"nodes": [*found], "bytes": int(size)}:
                names = tuple((known or {}).get(each, each) for each in map(str, found))
            case {"rates": [*found]}:
                rates += (Rate(str(name), tuple(names[each] for each in nodes), float(v)) for name, nodes, v in found)
            case {"end": True}:
                complete = True
    return Rates(names, tuple(rates), complete, size)


def _documents(lines: Iterable[str]) -> Iterator[Any]:
    for line in lines:
        _, mark, document = line.partition(MARK)
        if mark:
            try:
                yield json.loads(document)
            except ValueError:  # another process wrote into the line
                continue
