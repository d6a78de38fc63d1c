"""Each second of a run counts once, and only the steps that the run has kept are productive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from trainway.report import write_report
from trainway.report.events import read_events
from trainway.report.goodput import Goodput, goodput

if TYPE_CHECKING:
    from tests.report.conftest import RunDirectory

# Of each step of the directory's run, which has 0.7 s, and one second until the next event.
PRODUCTIVE, DATA = 0.69, 0.01


def goodput_of(run: RunDirectory) -> Goodput:
    return goodput(read_events(run.path))


def used(found: Goodput) -> dict[str, Any]:
    return {use: pytest.approx(seconds, abs=1e-6) for use, seconds in found.by_use.items() if seconds}


def test_the_seconds_of_an_undisturbed_run_add_up(run: RunDirectory) -> None:
    found = goodput_of(run.start(startup_seconds=5.0, load_seconds=2.0).steps(1, 3).end(3))
    assert found.seconds == pytest.approx(5 + 4)
    rest = 4 - 3 * (PRODUCTIVE + DATA)
    assert used(found) == {"startup": 3.0, "load": 2.0, "productive": 3 * PRODUCTIVE, "data": 3 * DATA, "other": rest}
    assert found.share == pytest.approx(3 * PRODUCTIVE / 9)


def test_steps_that_a_later_attempt_takes_again_are_lost(run: RunDirectory) -> None:
    run.start().steps(1, 6)
    run.now += 30
    found = goodput_of(run.start(resumed_from=4, startup_seconds=10.0).steps(5, 7))
    assert found.by_use["lost"] == pytest.approx(2 * PRODUCTIVE)
    assert found.by_use["productive"] == pytest.approx(7 * PRODUCTIVE)
    assert found.by_use["restart"] == pytest.approx(31 - 10)
    assert found.by_use["startup"] == pytest.approx(10)


def test_steps_are_lost_by_the_earliest_of_all_later_resumes(run: RunDirectory) -> None:
    found = goodput_of(run.start().steps(1, 6).start(resumed_from=4).steps(5, 6).start().steps(1, 2))
    assert found.by_use["productive"] == pytest.approx(2 * PRODUCTIVE)


def test_a_skipped_step_is_lost(run: RunDirectory) -> None:
    found = goodput_of(run.start().step(1).step(2, skipped=True))
    assert found.by_use["lost"] == pytest.approx(PRODUCTIVE)


def test_the_time_of_a_stopped_run_is_not_held_against_it(run: RunDirectory) -> None:
    run.start().steps(1, 3).end(3)
    before = goodput_of(run).share
    run.now += 86_400
    after = goodput_of(run.start(resumed_from=3).steps(5, 7).end(7))
    assert after.by_use["stopped"] == pytest.approx(86_401)
    assert after.share == pytest.approx(before, abs=0.01)


def test_a_hang_is_detection_until_the_watchdog_ends_it(run: RunDirectory) -> None:
    run.start().steps(1, 3)
    run.now += 60
    found = goodput_of(run.event("hang", {"seconds": 60.0}).start().steps(1, 3))
    assert found.by_use["detection"] == pytest.approx(60)
    assert found.by_use["restart"] == pytest.approx(1)


def test_an_evaluation_is_its_own_use(run: RunDirectory) -> None:
    run.start().step(1)
    run.now += 3
    found = goodput_of(run.event("evaluation", {"step": 1, "loss": 2.0, "seconds": 3.0}).end(1))
    assert found.by_use["evaluation"] == pytest.approx(3)


def test_a_clock_that_is_set_back_gives_no_negative_time(run: RunDirectory) -> None:
    run.start().steps(1, 3)
    run.now -= 3600
    found = goodput_of(run.start(resumed_from=3).steps(4, 6).end(6))
    assert min(found.by_use.values()) >= 0


def test_the_report_shows_the_goodput(run: RunDirectory) -> None:
    run.start().steps(1, 6).start(resumed_from=4).steps(5, 10).end(10)
    text = write_report(run.path).read_text()
    assert "Goodput" in text and "or taken again after a restart" in text
