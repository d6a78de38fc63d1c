"""How fast an all-reduce is over the nodes, and how fast it has to be.

The table is that of NCCL's tests, `all_reduce_perf`, which the probe prints as well: for each size in bytes the bus
bandwidth in GB/s, which is comparable with the network's whatever the number of ranks.
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

SHARE_OF_PUBLISHED = 0.7
"""A healthy cluster reaches what was published on two nodes nearly, and less of it the larger it is."""
SHARE_OF_NETWORK = 0.6
"""Where nothing is published. TCP reaches less than a tenth of EFA's bandwidth on the types with several cards."""
_BITS = 8

# size, count, type, redop, root, then time, algbw, busbw, #wrong out of place, and in place where that was measured.
_NUMBER = r"[\d.]+(?:e[+-]?\d+)?"
_ROW = re.compile(
    rf"^.*?(?P<bytes>\d+)\s+(?P<count>\d+)\s+(?P<type>[a-z]\w*)\s+(?P<op>[a-z]+)(?:\s+(?P<root>-?\d+))?"
    rf"\s+(?P<time>{_NUMBER})\s+(?P<algbw>{_NUMBER})\s+(?P<busbw>{_NUMBER})\s+(?P<wrong>{_NUMBER}|N/A)"
    rf"(?:\s+{_NUMBER}\s+{_NUMBER}\s+(?P<in_place>{_NUMBER})\s+(?P<in_place_wrong>{_NUMBER}|N/A))?",
    re.MULTILINE,
)
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values\s*:\s*(?P<count>\d+) (?P<verdict>OK|FAILED)")


class PublishedBandwidth(BaseModel):
    """A bus bandwidth in GB/s that somebody published for an instance type: on how many nodes, of how many bytes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    busbw: float
    nodes: int
    bytes: int
    source: str
    read: str


@dataclass(frozen=True)
class Sweep:
    """The bus bandwidths in GB/s by size in bytes, the better of out of place and in place, and the wrong values."""

    busbw: Mapping[int, float]
    wrong: int = 0

    @property
    def best(self) -> tuple[int, float]:
        """The size with the highest bandwidth, and that; raises ValueError where nothing was measured."""
        size = max(self.busbw, key=lambda each: self.busbw[each])
        return size, self.busbw[size]


@dataclass(frozen=True)
class Floor:
    """What an all-reduce has to reach, in GB/s, and what that is a share of."""

    busbw: float
    because: str


def read_sweep(text: str) -> Sweep | None:
    """The table in a text, whatever is between its lines and before them; None where there is none."""
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


def floor_of(instance: Instance) -> Floor:
    """The lowest bus bandwidth between nodes of a type that is no fault."""
    if published := load_published().get(instance.name):
        because = f"{SHARE_OF_PUBLISHED:.0%} of the {published.busbw:g} GB/s published for {published.nodes} nodes"
        return Floor(SHARE_OF_PUBLISHED * published.busbw, because)
    network = instance.network_gbps / _BITS
    return Floor(SHARE_OF_NETWORK * network, f"{SHARE_OF_NETWORK:.0%} of the network's {network:g} GB/s")


@cache
def load_published() -> Mapping[str, PublishedBandwidth]:
    """What is published, by instance type; read once a process."""
    facts = read_facts(Path(__file__).with_name("all_reduce.yaml"))
    return {name: PublishedBandwidth.model_validate(each) for name, each in facts.items()}


def _wrong(text: str | None) -> int:
    """Old versions print the largest error instead of a count: what is below 1 is a rounding."""
    return int(float(text)) if text and text != "N/A" else 0
