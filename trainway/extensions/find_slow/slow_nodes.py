"""Find the slow nodes and links among measured rates, by comparing each with the median of the others.

A slow node makes all of its pairs slow, and a slow link makes one pair slow. Therefore, the pairs of each node are
compared with the pairs of all other nodes. The slowest node is reported, and its pairs are excluded from the further
comparisons. A median is reliable while less than half of the rates are slow. For pairs, this holds while at most a
quarter of the nodes is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median, median_high

from trainway.extensions.find_slow.rates import Rate, Rates, in_digits

SLOW_SHARE = 0.75
"""Share of the median of the others below which a rate is slow.

No source states this limit. A job waits for its slowest node, so a rate below this share costs more than a quarter of
the cluster. The rates of all-reduces over equal links differed by less than 5 %, in
tests/extensions/find_slow/test_slow_host.py.
"""


class Suspect(StrEnum):
    """What is slow."""

    NODE = "node"
    LINK = "link"
    """The link between two nodes whose other pairs are not slow."""
    HALF = "half"
    """Half of the nodes together, although no node and no link among them is slow."""


@dataclass(frozen=True)
class Slow:
    """A node, a link, or half of the nodes that is slow: its rate, and the median of the others."""

    suspect: Suspect
    measure: str
    nodes: tuple[str, ...]
    value: float
    median: float
    unit: str

    @property
    def share(self) -> float:
        """The rate as a share of the median of the others."""
        return self.value / self.median

    @property
    def sentence(self) -> str:
        """The share and both rates in words."""
        words = f"{self.share:.2f} of the median of {_OTHERS[self.suspect, self.measure.split()[0] == 'pair']}"
        return f"{words} ({in_digits(self.value)} of {in_digits(self.median)} {self.unit})"


_OTHERS = {
    (Suspect.NODE, False): "the other nodes",
    (Suspect.NODE, True): "the pairs of the other nodes",
    (Suspect.LINK, True): "the other pairs",
    (Suspect.HALF, False): "the other half",
}


def find_slow(rates: Rates, share: float = SLOW_SHARE) -> tuple[Slow, ...]:
    """Return the nodes, links, and halves whose rates are below `share` of the median of the others, by measure.

    With two nodes, a slow node is found by its own rates only: they have a single pair, and nothing to compare it with.
    """
    slow: list[Slow] = []
    for measure in rates.measures("gemm", "memory", "node"):
        slow += _slow_nodes(rates.of(measure), share)
    for measure in rates.measures("pair"):
        slow += _slow_pairs(rates.of(measure), share)
    named = {node for each in slow if each.measure.startswith("pair") for node in each.nodes}
    for measure in rates.measures("half"):
        slow += _slow_halves(rates.of(measure), named, share)
    return tuple(slow)


def _slow_nodes(rates: Sequence[Rate], share: float) -> Iterator[Slow]:
    """Yield the nodes whose own rate is slow, the slowest first."""
    left = sorted(rates, key=_value)
    while len(left) > 1:
        first, *left = left
        slow = _judge(Suspect.NODE, first, first.value, [each.value for each in left])
        if slow.share >= share:
            return
        yield slow


def _slow_pairs(rates: Sequence[Rate], share: float) -> Iterator[Slow]:
    """Yield the nodes most of whose pairs are slow, the slowest first, and then the slow links between other nodes."""
    left = list(rates)
    while suspects := [each for each in _by_node(left) if each.share < share]:
        slowest = min(suspects, key=_share)
        yield slowest
        left = [each for each in left if slowest.nodes[0] not in each.nodes]
    for pair in left:
        others = [each.value for each in left if each is not pair]
        if others and (slow := _judge(Suspect.LINK, pair, pair.value, others)).share < share:
            yield slow


def _by_node(pairs: Sequence[Rate]) -> Iterator[Slow]:
    """Yield the rate of each node's pairs beside that of the pairs of the other nodes, if there are any."""
    for node in dict.fromkeys(node for pair in pairs for node in pair.nodes):
        own = [each for each in pairs if node in each.nodes]
        others = [each.value for each in pairs if node not in each.nodes]
        if others:
            # Of two pairs, the faster one counts: if only one is slow, the other node may be the cause.
            rate = Rate(own[0].measure, (node,), median_high([each.value for each in own]))
            yield _judge(Suspect.NODE, rate, rate.value, others)


def _slow_halves(rates: Sequence[Rate], named: set[str], share: float) -> Iterator[Slow]:
    """Yield the halves that are slower than the other half, unless a node in them is known to be slow."""
    for one, two in zip(rates[::2], rates[1::2], strict=False):
        slower, faster = sorted((one, two), key=_value)
        slow = _judge(Suspect.HALF, slower, slower.value, [faster.value])
        if slow.share < share and not named & set(slower.nodes):
            yield slow


def _judge(suspect: Suspect, rate: Rate, value: float, others: Sequence[float]) -> Slow:
    return Slow(suspect, rate.measure, rate.nodes, value, median(others), rate.unit)


def _value(rate: Rate) -> float:
    return rate.value


def _share(slow: Slow) -> float:
    return slow.share
