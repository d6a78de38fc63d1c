"""Distinguish a slow node from a slow link, and report no nodes that differ within the tolerance."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainway.extensions.find_slow.rates import Rate, Rates
from trainway.extensions.find_slow.slow_nodes import SLOW_SHARE, Suspect, find_slow
from trainway.verify.rates_program import rounds

PAIR = "pair all-reduce"


def node(number: int) -> str:
    return f"node-{number}"


def pairs(nodes: int, speeds: Mapping[int, float], links: Mapping[tuple[int, int], float] | None = None) -> list[Rate]:
    """Return the rates of pairs in five rounds, each that of the slower of its nodes and of its link. Default: 10."""
    return [
        Rate(
            PAIR,
            (node(one), node(two)),
            min(speeds.get(one, 10), speeds.get(two, 10), (links or {}).get((one, two), 10)),
        )
        for some in rounds(nodes, 5)
        for one, two in some
    ]


def found(*rates: Rate) -> list[tuple[Suspect, tuple[str, ...]]]:
    names = tuple(dict.fromkeys(each for rate in rates for each in rate.nodes))
    return [(each.suspect, each.nodes) for each in find_slow(Rates(names, rates, complete=True))]


def test_a_node_whose_pairs_are_slow_is_named_with_its_share() -> None:
    [slow] = find_slow(Rates((), tuple(pairs(8, {3: 4.1}))))
    assert (slow.suspect, slow.nodes) == (Suspect.NODE, ("node-3",))
    assert slow.sentence == "0.41 of the median of the pairs of the other nodes (4.1 of 10 GB/s)"


def test_three_quarters_of_the_median_are_the_limit() -> None:
    assert found(*pairs(8, {3: 7.4})) == [(Suspect.NODE, ("node-3",))]
    assert found(*pairs(8, {3: 7.6})) == []


def test_two_slow_nodes_of_eight_are_both_named_the_slowest_first() -> None:
    assert found(*pairs(8, {3: 4, 6: 2})) == [(Suspect.NODE, ("node-6",)), (Suspect.NODE, ("node-3",))]


@pytest.mark.parametrize("nodes", [3, 4, 5, 8])
def test_a_single_slow_pair_is_a_link_and_no_node(nodes: int) -> None:
    assert found(*pairs(nodes, {}, {(1, 2): 3})) == [(Suspect.LINK, ("node-1", "node-2"))]


@pytest.mark.parametrize("nodes", [3, 4, 5, 8])
def test_a_slow_node_is_named_among_three_nodes_and_more(nodes: int) -> None:
    assert found(*pairs(nodes, {1: 3})) == [(Suspect.NODE, ("node-1",))]


def test_a_slow_pair_of_two_nodes_names_neither() -> None:
    assert found(*pairs(2, {1: 3})) == []


def test_of_two_nodes_the_one_with_the_lower_rate_of_its_own_is_named() -> None:
    assert found(Rate("gemm", (node(0),), 700), Rate("gemm", (node(1),), 300)) == [(Suspect.NODE, ("node-1",))]


def test_own_rates_are_compared_within_their_measure() -> None:
    rates = [Rate(name, (node(at),), 100 * scale) for name, scale in (("gemm", 1), ("memory", 30)) for at in range(3)]
    [slow] = find_slow(Rates((), (*rates, Rate("memory", (node(3),), 1500))))
    assert (slow.measure, slow.nodes) == ("memory", ("node-3",))
    assert slow.sentence == "0.50 of the median of the other nodes (1500 of 3000 GB/s)"


def test_a_slow_half_without_a_slow_node_is_named_as_a_whole() -> None:
    halves = [
        Rate("half all-reduce", tuple(map(node, half)), value) for half, value in (((0, 2, 4), 10), ((1, 3, 5), 4))
    ]
    assert found(*pairs(6, {}), *halves) == [(Suspect.HALF, ("node-1", "node-3", "node-5"))]
    # The slow node explains the slow half.
    assert found(*pairs(6, {3: 4}), *halves) == [(Suspect.NODE, ("node-3",))]


@settings(max_examples=25)
@given(nodes=st.integers(2, 24), seed=st.integers(0, 2**16))
def test_nodes_within_the_tolerance_are_never_named(nodes: int, seed: int) -> None:
    chance = random.Random(seed)
    # The largest difference within the tolerance: the lowest rate is above SLOW_SHARE of the highest.
    rates = [Rate(each.measure, each.nodes, chance.uniform(SLOW_SHARE + 0.01, 1)) for each in pairs(nodes, {})]
    own = [Rate("gemm", (node(at),), chance.uniform(SLOW_SHARE + 0.01, 1)) for at in range(nodes)]
    assert found(*rates, *own) == []


@settings(max_examples=25)
@given(nodes=st.integers(3, 24), share=st.floats(0.05, 0.6), seed=st.integers(0, 2**16), data=st.data())
def test_the_slow_node_and_no_other_is_named_whatever_the_noise(
    nodes: int, share: float, seed: int, data: st.DataObject
) -> None:
    planted, chance = data.draw(st.integers(0, nodes - 1)), random.Random(seed)
    rates = [
        Rate(each.measure, each.nodes, each.value * chance.uniform(0.9, 1))
        for each in pairs(nodes, {planted: 10 * share})
    ]
    chance.shuffle(rates)
    assert found(*rates) == [(Suspect.NODE, (node(planted),))]
