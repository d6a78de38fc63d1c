"""The schedule pairs each node with several others, and the reader reads the output of the program."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainway.extensions.find_slow.rates import Rate, rates_of_log
from trainway.verify.probe_job import rates_command
from trainway.verify.rates_program import MARK, rounds, splits

PAIR = "pair all-reduce"


@settings(max_examples=25)
@given(nodes=st.integers(2, 33), partners=st.integers(1, 7))
def test_each_round_has_a_node_once_and_no_pair_comes_twice(nodes: int, partners: int) -> None:
    schedule = list(rounds(nodes, partners))
    met: dict[int, set[int]] = {each: set() for each in range(nodes)}
    for some in schedule:
        assert len({each for pair in some for each in pair}) == 2 * len(some)
        for one, two in some:
            assert two not in met[one]
            met[one].add(two)
            met[two].add(one)
    assert all(len(others) >= min(partners, nodes - 1) for others in met.values())
    assert len(schedule) <= partners + 1


@pytest.mark.parametrize("nodes", [6, 7, 8, 16])
def test_a_node_is_in_one_half_of_each_split_and_shares_it_with_no_node_in_all_splits(nodes: int) -> None:
    halves = list(splits(nodes))
    assert all(sorted(one + two) == list(range(nodes)) for one, two in halves)
    if nodes in (8, 16):
        sides = {each: tuple(each in one for one, _ in halves) for each in range(nodes)}
        assert len(set(sides.values())) == nodes


def lines(*documents: object) -> Iterable[str]:
    return [f"[n0 0] {MARK}{json.dumps(each)}" for each in documents]


def test_rates_are_read_among_other_lines_and_an_incomplete_line_is_left_out() -> None:
    rates = rates_of_log(
        [
            *lines({"nodes": ["a", "b"], "bytes": 4096}, {"rates": [["gemm", [0], 1.5], [PAIR, [0, 1], 2]]}),
            "NCCL INFO Channel 00",
            f'{MARK}{{"rates": [[',
        ]
    )
    assert rates.rates == (Rate("gemm", ("a",), 1.5), Rate(PAIR, ("a", "b"), 2))
    assert [each.unit for each in rates.rates] == ["TFLOP/s", "GB/s"]
    assert not rates.complete
    assert rates.bytes == 4096
    assert rates_of_log(lines({"end": True})).complete
    [slow] = rates_of_log(lines({"nodes": ["pod"], "bytes": 1}, {"rates": [["gemm", [0], 1]]}), {"pod": "ip-1"}).rates
    assert slow.nodes == ("ip-1",)


def test_the_program_needs_nothing_of_this_project_and_fits_into_an_argument() -> None:
    source = rates_command()[-1]
    imported = [each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Import | ast.ImportFrom)]
    names = {name.name if isinstance(each, ast.Import) else each.module for each in imported for name in each.names}
    assert names == {"importlib", "json", "os", "socket", "time", "typing"}
    # MAX_ARG_STRLEN of Linux is 128 KiB for one argument. Kubernetes would replace $(NAME).
    assert len(source.encode()) < 128 * 1024
    assert "$(" not in source
