"""The formula for the interval between checkpoints finds what a brute-force simulation of interruptions finds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from training.config.checkpoint_interval import choose_interval, optimal_seconds, seconds_between_interruptions

SEGMENTS = 400_000
RESTART = 300.0


def simulated_loss(interval: float, stall: float, between: float) -> float:
    """Return the seconds that a simulated run loses for each second of progress.

    A segment is an interval and its save. It is taken again from its beginning until no interruption falls into it.
    """
    random = np.random.default_rng(0)
    seconds, waiting = 0.0, SEGMENTS
    while waiting:
        until_interruption = random.exponential(between, waiting)
        failed = until_interruption[until_interruption < interval + stall]
        seconds += failed.sum() + RESTART * len(failed) + (waiting - len(failed)) * (interval + stall)
        waiting = len(failed)
    return seconds / (SEGMENTS * interval) - 1


@pytest.mark.parametrize(
    ("stall", "between"),
    [
        pytest.param(2, 36_000, id="usual"),
        pytest.param(60, 3600, id="a minute"),
        pytest.param(600, 3600, id="a sixth"),
        pytest.param(1800, 3600, id="half"),
        # Most attempts fail, so that the simulation takes ten times as long.
        pytest.param(1500, 600, id="beyond the series", marks=pytest.mark.exhaustive),
    ],
)
def test_no_other_interval_loses_noticeably_less_in_a_simulation(stall: float, between: float) -> None:
    interval = optimal_seconds(stall, between)
    found = simulated_loss(interval, stall, between)
    others = [simulated_loss(interval * factor, stall, between) for factor in (0.4, 0.6, 0.8, 0.9, 1.1, 1.3, 1.7, 2.5)]
    assert found < 1.03 * min(others)
    assert max(others) > 1.1 * found, "the simulation does not tell intervals apart"


def test_youngs_formula_agrees_while_a_save_is_short_and_loses_time_otherwise() -> None:
    assert optimal_seconds(1, 3000) == pytest.approx(math.sqrt(2 * 3000), rel=0.015)
    young, daly = math.sqrt(2 * 1800 * 3600), optimal_seconds(1800, 3600)
    assert simulated_loss(young, 1800, 3600) > 1.04 * simulated_loss(daly, 1800, 3600)


def test_the_default_is_one_interruption_in_three_hours_on_the_nodes_of_llama_3() -> None:
    assert seconds_between_interruptions(2048, 3.79) == pytest.approx(54 * 86_400 / 419, rel=0.001)
    assert seconds_between_interruptions(1, 3.79) == 2048 * seconds_between_interruptions(2048, 3.79)


def test_an_interval_has_at_least_one_whole_step_and_is_at_least_as_long_as_a_write() -> None:
    usual = choose_interval(2, 30, 5, 64, 3.79)
    assert (usual.steps, usual.bound) == (round(optimal_seconds(2, 1000 * 86_400 / 64 / 3.79) / 5), "optimum")
    assert usual.seconds == 5 * usual.steps
    slow_write = choose_interval(2, 3001, 5, 64, 3.79)
    assert (slow_write.steps, slow_write.bound) == (601, "write")
    long_step = choose_interval(2, 30, 5000, 64, 3.79)
    assert (long_step.steps, long_step.bound) == (1, "step")
    assert choose_interval(0, 0, 5, 64, 3.79).steps == 1
    assert usual.sentence == (
        "238 steps (1190 s), the optimum: a save stops training for 2 s and is complete after 30 s, a step takes 5 s, "
        "and 64 nodes with 3.79 interruptions per 1,000 node-days have one in 4.123 days"
    )
