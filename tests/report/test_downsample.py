"""Fewer points, the same picture."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainway.report.downsample import keep_extremes, stretch_means

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=300)


@given(VALUES, st.integers(4, 60))
def test_extremes_and_ends_survive_in_order_within_the_limit(values: list[float], limit: int) -> None:
    points = [(float(x), y) for x, y in enumerate(values)]
    kept = keep_extremes(points, limit)
    assert len(kept) <= limit
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert {min(values), max(values)} <= {y for _, y in kept}
    assert kept == sorted(kept)
    assert set(kept) <= set(points)


def test_a_spike_of_one_step_in_a_hundred_thousand_is_kept() -> None:
    points = [(float(x), 1.0) for x in range(100_000)]
    points[54_321] = (54_321.0, 99.0)
    assert (54_321.0, 99.0) in keep_extremes(points, 1000)


def test_values_that_are_not_finite_become_gaps_only_where_there_is_nothing_else() -> None:
    few = keep_extremes([(1, 1.0), (2, math.inf), (3, 2.0)], 10)
    assert [math.isnan(y) for _, y in few] == [False, True, False]
    long = keep_extremes([(float(x), math.nan if x > 500 else 1.0) for x in range(1000)], 50)
    gap = [math.isnan(y) for _, y in long]
    assert gap == sorted(gap)
    assert True in gap


@given(VALUES, st.integers(1, 60))
def test_means_keep_the_total_where_stretches_are_equally_long(values: list[float], stretches: int) -> None:
    rows = [[value, 1.0] for value in values for _ in range(stretches)]
    begins, means = stretch_means(rows, stretches)
    assert len(begins) == len(means) == stretches
    total = sum(mean[0] for mean in means) * len(values)
    assert total == pytest.approx(sum(values) * stretches, abs=1e-3)
    assert all(mean[1] == 1.0 for mean in means)


def test_no_more_rows_than_the_limit_stay_as_they_are() -> None:
    assert stretch_means([[1.0], [2.0], [4.0]], 5) == ([0, 1, 2], [[1.0], [2.0], [4.0]])
