"""A history says what counts of a run that may have been broken off, resumed and stopped."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest

from trainway.report import summarize
from trainway.report.events import read_events
from trainway.report.history import History, make_history

if TYPE_CHECKING:
    from tests.report.conftest import RunDirectory


def history_of(run: RunDirectory) -> History:
    return make_history(read_events(run.path))


def test_of_a_repeated_step_the_last_line_counts_and_steps_come_in_order(run: RunDirectory) -> None:
    history = history_of(run.start().step(2, loss=5.0).step(1, loss=6.0).step(2, loss=4.0))
    assert [(step.step, step.loss) for step in history.steps] == [(1, 6.0), (2, 4.0)]


def test_a_resume_repeats_the_steps_after_its_checkpoint(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 6, loss=5.0).start(resumed_from=4).steps(5, 10, loss=3.0).end(10))
    assert [step.loss for step in history.steps] == [5.0] * 4 + [3.0] * 6
    assert history.resumes == [4]
    assert [attempt.superseded for attempt in history.attempts] == [0, 2]
    assert [attempt.last_step for attempt in history.attempts] == [6, 10]
    assert history.outcome == "finished"


def test_steps_beyond_the_checkpoint_are_void_before_they_are_repeated(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 9).start(resumed_from=4))
    assert [step.step for step in history.steps] == [1, 2, 3, 4]
    assert [saved.step for saved in history.checkpoints] == [4]
    assert history.last_step == 4


def test_a_start_from_the_beginning_makes_everything_before_it_void(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 9).start().steps(1, 2))
    assert [step.step for step in history.steps] == [1, 2]
    assert history.checkpoints == ()
    assert history.resumes == []


def test_a_run_without_an_end_did_not_finish(run: RunDirectory) -> None:
    assert history_of(run.start().steps(1, 10)).outcome == "unfinished"


def test_an_end_before_the_last_step_is_a_stop_in_order(run: RunDirectory) -> None:
    assert history_of(run.start().steps(1, 6).end(6)).outcome == "stopped"


def test_an_end_of_an_earlier_attempt_does_not_finish_a_later_one(run: RunDirectory) -> None:
    assert history_of(run.start().steps(1, 6).end(6).start(resumed_from=4).steps(5, 8)).outcome == "unfinished"


def test_starting_a_complete_job_again_leaves_it_finished(run: RunDirectory) -> None:
    history = history_of(run.start().steps(1, 10).end(10).start(resumed_from=10).end(10))
    assert history.outcome == "finished"
    assert len(history.steps) == 10


def test_seconds_leave_out_the_time_between_attempts(run: RunDirectory) -> None:
    run.start().step(1).step(2)
    run.now += 3600
    assert history_of(run.start(resumed_from=2).step(3).end(3)).seconds == pytest.approx(2 + 2)


def test_a_clock_that_is_set_back_takes_no_seconds_away(run: RunDirectory) -> None:
    run.start().step(1).step(2)
    run.now -= 86_400
    assert history_of(run.step(3).step(4)).seconds == pytest.approx(2 + 1)


def test_summary_has_the_medians_and_the_loss_from_first_to_final(run: RunDirectory) -> None:
    run.start()
    for number, seconds in enumerate((9.0, 1.0, 2.0), start=1):
        run.step(number, loss=8.0 - number, step_seconds=seconds, tokens_per_second=100 / seconds)
    summary = summarize(run.path)
    assert (summary.steps, summary.first_loss, summary.final_loss) == (3, 7.0, 5.0)
    assert (summary.median_step_seconds, summary.median_tokens_per_second) == (2.0, 50.0)


def test_summary_of_a_run_without_steps_has_no_figures(run: RunDirectory) -> None:
    summary = summarize(run.start().path)
    assert summary.steps == 0
    assert summary.first_loss is summary.final_loss is summary.median_step_seconds is None
    assert summary.median_tokens_per_second is None


def test_the_first_step_that_is_not_finite_is_found(run: RunDirectory) -> None:
    assert history_of(run.start().steps(1, 3)).first_bad_step is None
    assert history_of(run.step(4, loss=math.inf).step(5, loss=math.nan)).first_bad_step == 4
