"""Every chart says its numbers in words, and takes its colors from the page."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

import pytest

from trainway.report import charts
from trainway.report.events import PHASES, read_events
from trainway.report.history import History, make_history
from trainway.report.svg import PHASE_COLORS

if TYPE_CHECKING:
    from tests.report.conftest import RunDirectory


def history_of(run: RunDirectory) -> History:
    return make_history(read_events(run.path))


def texts(chart: charts.Chart) -> list[str]:
    """What is written in a chart."""
    return [element.text or "" for element in ET.fromstring(chart.svg).iter("text")]


def test_loss_chart_marks_the_first_and_the_final_loss_and_every_resume(run: RunDirectory) -> None:
    run.start().steps(1, 6, loss=5.0).start(resumed_from=4).steps(5, 9, loss=4.0).step(10, loss=3.5)
    chart = charts.loss_chart(history_of(run))
    assert {"first 5.0000", "final 3.5000", "resumed from 4"} <= set(texts(chart))
    assert "5.0000 at step 1 and 3.5000 at step 10" in chart.caption
    assert "resumed from the checkpoint of step 4" in chart.caption


def test_loss_chart_says_where_the_loss_is_not_finite(run: RunDirectory) -> None:
    run.start().steps(1, 5).step(6, loss=math.nan).step(7, loss=math.inf).step(8)
    assert "At 2 steps the loss is not a finite number, first at step 6" in charts.loss_chart(history_of(run)).caption


def test_charts_can_be_drawn_of_values_none_of_which_is_finite(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 3, loss=math.nan, grad_norm=math.nan))
    assert "not a number at step 1" in charts.loss_chart(history).caption
    assert charts.grad_norm_chart(history.steps).caption == "Gradient norm: not a finite number at any step."


def test_mfu_is_drawn_only_where_it_is_known(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 3).step(4, mfu=0.41).step(5, mfu=0.43))
    assert charts.mfu_chart(history.steps[:3]) is None
    chart = charts.mfu_chart(history.steps)
    assert chart is not None
    assert "median 42.0%, highest 43.0%" in chart.caption
    assert "not known for 3 steps" in chart.caption


def test_phase_shares_add_up_to_the_whole_step(run: RunDirectory) -> None:
    shares = charts.phase_shares(history_of(run.start().steps(1, 8)).steps)
    assert [share.phase for share in shares] == list(PHASES)
    assert sum(share.share for share in shares) == pytest.approx(1)
    backward = next(share for share in shares if share.phase == "backward")
    assert backward.median_seconds == pytest.approx(0.4)
    assert backward.total_seconds == pytest.approx(3.2)
    assert backward.share == pytest.approx(3.2 / (8 * 0.7 + 2 * 0.3))


def test_breakdown_stacks_every_phase_in_its_own_colour(run: RunDirectory) -> None:
    chart = charts.breakdown_chart(history_of(run.start().steps(1, 8)).steps)
    for phase in PHASE_COLORS:
        assert f"var(--{phase.replace('_', '-')})" in chart.svg
    assert [text for text in texts(chart) if text in {phase.replace("_", " ") for phase in PHASES}] == [
        phase.replace("_", " ") for phase in PHASES
    ]


def test_a_gradient_norm_that_spikes_gets_a_logarithmic_scale(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 8).step(9, grad_norm=5000.0))
    assert "gradient norm (log scale)" in texts(charts.grad_norm_chart(history.steps))
    assert "gradient norm" in texts(charts.grad_norm_chart(history.steps[:8]))


def test_long_runs_say_that_the_line_is_a_mean(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, charts.MOST_POINTS + 1))
    assert "the line is their mean" in charts.throughput_chart(history.steps).caption
    assert "mean" not in charts.throughput_chart(history.steps[:-1]).caption


def test_charts_have_no_colour_of_their_own_and_no_date(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 6).start(resumed_from=4).steps(5, 10))
    svg = charts.loss_chart(history).svg + charts.throughput_chart(history.steps).svg
    colors = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", svg))
    assert colors == {"none", "currentColor", "var(--grid)", "var(--first)", "var(--second)", "var(--mark)"}
    assert "metadata" not in svg
    assert not re.search(r"\d{4}-\d\d-\d\d", svg)
