"""The simulation of a run counts every second once, and agrees with results that can be computed by hand."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

import pytest

from benchmarks.simulated_run import Costs, Interruption, expected_share, interruptions, simulate

COSTS = Costs(
    step_seconds=4.5,
    data_seconds=0.5,
    stall_seconds=2.0,
    write_seconds=12.0,
    detection_seconds=100.0,
    restart_seconds=10.0,
    startup_seconds=50.0,
    load_seconds=20.0,
)


@pytest.mark.parametrize("between", [20.0, 300.0, 5000.0])
def test_every_second_counts_once(between: float) -> None:
    for every in (1, 7):
        spent = simulate(COSTS, every, 50_000, interruptions(between, 0.3, seed=every))
        assert sum(spent.values()) == pytest.approx(50_000)
        assert min(spent.values()) >= -1e-6


def test_without_interruptions_only_saves_stop_the_training() -> None:
    # 100 intervals of ten steps.
    seconds = COSTS.startup_seconds + 100 * (10 * 5 + 2)
    spent = simulate(COSTS, 10, seconds, [])
    used = {use: used for use, used in spent.items() if used > 1e-6}
    assert used == pytest.approx({"startup": 50, "productive": 4500, "data": 500, "checkpoint": 200})
    # Writes that take longer than the steps between them stop the training, too: each save begins 12 s after another.
    spent = simulate(COSTS, 1, 50 + 5 + 12 * 100, [])
    assert spent["checkpoint"] == pytest.approx(12 * 100 - 5 * 100)


def test_an_interruption_loses_the_steps_since_the_newest_complete_checkpoint() -> None:
    # The save of step 10 begins at 100 s, and is complete at 112 s.
    after = simulate(COSTS, 10, 1000, [Interruption(125)])
    assert after["lost"] == pytest.approx(4 * 4.5), "from 102 s to 125 s"
    assert after["restart"] == pytest.approx(10 + 3)
    assert (after["startup"], after["load"], after["detection"]) == (100, 20, 0)
    before = simulate(COSTS, 10, 1000, [Interruption(111.9)])
    assert before["lost"] == pytest.approx(11 * 4.5), "there is no checkpoint yet"
    assert before["load"] == 0
    hang = simulate(COSTS, 10, 1000, [Interruption(125, is_hang=True)])
    assert hang["detection"] == 100
    # The second interruption falls into the restart, which begins again.
    again = simulate(COSTS, 10, 1000, [Interruption(125), Interruption(155)])
    assert again["restart"] == pytest.approx(10 + 3 + 10)
    assert again["startup"] == 50 + 20 + 50


@pytest.mark.parametrize(("between", "every"), [(3000.0, 10), (500.0, 10), (500.0, 40)])
def test_a_long_run_has_the_productive_share_of_dalys_closed_form(between: float, every: int) -> None:
    waits = replace(COSTS, write_seconds=COSTS.stall_seconds)
    runs = [simulate(waits, every, 400 * between, interruptions(between, 0, seed)) for seed in range(10)]
    shares = [run["productive"] / (400 * between) for run in runs]
    # 4,000 interruptions: the standard error of the share is below half a percent of it.
    assert fmean(shares) == pytest.approx(expected_share(waits, every, between), rel=0.015)
