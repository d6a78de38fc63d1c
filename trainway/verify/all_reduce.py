"""Measure the bandwidth of an all-reduce over the nodes, and compare it with the required one.

The table has the format of NCCL's tests, `all_reduce_perf`, which the probe also prints: for each size in bytes the bus
bandwidth in GB/s, which is comparable with the network's for any number of ranks.
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md, src/util.cu (read 2026-11-21)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from trainway.spec.facts.files import read_facts
from trainway.spec.facts.instance import Instance

SHARE_OF_PUBLISHED = 0.8
"""Required share of a bandwidth that was published for the tested number of nodes, or for more.

The bus bandwidth falls with the number of nodes, so that fewer nodes reach a figure at least. What is published for P5
and P6-B200 is flat from 4 GiB on (all_reduce.yaml has the sources), so a size of 8 GiB costs 2 % of it.
"""
SHARE_OF_FEWER = 0.7
"""Required share of a bandwidth that was published for fewer nodes only."""
SHARE_OF_NETWORK = 0.6
"""Required share of the network's bandwidth if nothing is published.

TCP reaches less than a tenth of EFA's bandwidth on the types with several cards.
"""
_BITS = 8

# size, count, type, redop, root, then time, algbw, busbw, #wrong out of place, and in place if that was measured.
_NUMBER = r"[\d.]+(?:e[+-]?\d+)?"
_ROW = re.compile(
    rf"^.*?(?P<bytes>\d+)\s+(?P<count>\d+)\s+(?P<type>[a-z]\w*)\s+(?P<op>[a-z]+)(?:\s+(?P<root>-?\d+))?"
    rf"\s+(?P<time>{_NUMBER})\s+(?P<algbw>{_NUMBER})\s+(?P<busbw>{_NUMBER})\s+(?P<wrong>{_NUMBER}|N/A)"
    rf"(?:\s+{_NUMBER}\s+{_NUMBER}\s+(?P<in_place>{_NUMBER})\s+(?P<in_place_wrong>{_NUMBER}|N/A))?",
    re.MULTILINE,
)
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(?P<count>\d+) (?P<verdict>OK|FAILED)")


class PublishedBandwidth(BaseModel):
    """A published bus bandwidth in GB/s for an instance type, with the number of nodes and the size in bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    busbw: float
    nodes: int
    bytes: int
    source: str
    read: str


@dataclass(frozen=True)
class Sweep:
    """Bus bandwidths in GB/s by size in bytes, the better of out of place and in place, and a count of wrong values."""

    busbw: Mapping[int, float]
    wrong: int = 0

    @property
    def best(self) -> tuple[int, float]:
        """Return the size with the highest bandwidth, and that bandwidth. Raises ValueError if nothing was measured."""
        size = max(self.busbw, key=lambda each: self.busbw[each])
        return size, self.busbw[size]


@dataclass(frozen=True)
class Floor:
    """The required bandwidth of an all-reduce, in GB/s, and its derivation in words."""

    busbw: float
    because: str


def read_sweep(text: str) -> Sweep | None:
    """Return the table in a text, ignoring other lines before and between its lines. None if there is no table."""
    busbw: dict[int, float] = {}
    wrong = 0
    for row in _ROW.finditer(text):
        size = int(row["bytes"])
        values = [float(row["busbw"]), *([float(row["in_place"])] if row["in_place"] else [])]
        busbw[size] = max(busbw.get(size, 0.0), *values)
        wrong += sum(_wrong(row[name]) for name in ("wrong", "in_place_wrong"))
    if not busbw:
        return None
    told = _OUT_OF_BOUNDS.search(text)
    return Sweep(busbw, max(wrong, int(told["count"]) if told else 0))


def floor_of(instance: Instance, nodes: int) -> Floor:
    """Return the required bus bandwidth for an instance type and number of nodes.

    The figure that was published for the same number of nodes counts, otherwise the one for the next larger number,
    and otherwise the one for the largest.
    """
    if figures := load_published().get(instance.name):
        enough = [each for each in figures if each.nodes >= nodes]
        published = min(enough, key=_nodes) if enough else max(figures, key=_nodes)
        share = SHARE_OF_PUBLISHED if enough else SHARE_OF_FEWER
        because = f"{share:.0%} of the {published.busbw:g} GB/s published for {published.nodes} nodes"
        return Floor(share * published.busbw, because)
    network = instance.network_gbps / _BITS
    return Floor(SHARE_OF_NETWORK * network, f"{SHARE_OF_NETWORK:.0%} of the network's {network:g} GB/s")


@cache
def load_published() -> Mapping[str, tuple[PublishedBandwidth, ...]]:
    """Return the published bandwidths by instance type, one for each number of nodes. Each process reads them once."""
    facts = read_facts(Path(__file__).with_name("all_reduce.yaml"))
    return {name: tuple(map(PublishedBandwidth.model_validate, each)) for name, each in facts.items()}


def _nodes(published: PublishedBandwidth) -> int:
    return published.nodes


def _wrong(text: str | None) -> int:
    """Return the number of wrong values.

    Old versions print the largest error instead: below 1, it is a rounding error.
    """
    return int(float(text)) if text and text != "N/A" else 0
