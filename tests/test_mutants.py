"""No file makes the command line raise or hang, and what passes the check works in the commands after it."""

from __future__ import annotations

import random
import time

import pytest

from tests.mutants import JOBS, PLATFORMS, mutated, run


@pytest.mark.parametrize(("count", "seed"), [(40, 1), pytest.param(400, 2, marks=pytest.mark.exhaustive)])
def test_a_mutated_file_is_refused_with_a_remedy_or_works(count: int, seed: int) -> None:
    became, wrong = run(count, seed, most_synthesized=count // 40)
    assert not wrong, "\n\n".join(f"{each.what}\n{each.text}\n{each.said}" for each in wrong)
    assert became.total() - became["platform synthesized"] == count
    # Files of both kinds, so that neither the check nor what comes after it is idle.
    assert {"platform refused", "platform accepted", "job refused", "job accepted"} <= set(became)


def test_a_command_that_hangs_is_ended_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainway.cli.main", lambda: time.sleep(3600))
    monkeypatch.setattr("tests.mutants.HANG_SECONDS", 1)
    _, wrong = run(1, 1)
    assert "HangingCommandError: it has not ended" in wrong[0].said


def test_a_mutation_changes_a_file_and_is_the_same_for_a_seed() -> None:
    text, other = PLATFORMS[0].read_text("utf-8"), JOBS[0].read_text("utf-8")
    first, again = ([mutated(text, other, random.Random(seed)) for seed in range(50)] for _ in range(2))
    assert first == again
    assert sum(each != text for each in first) > 40


@pytest.mark.parametrize(
    ("faulty", "what"),
    [
        (lambda *_: (_ for _ in ()).throw(ValueError("an invented fault")), "ended in a traceback"),
        (lambda *_: exec("raise SystemExit(2)"), "without a remedy"),
    ],
)
def test_a_fault_of_the_command_line_is_found(faulty: object, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainway.cli.main", faulty)
    _, wrong = run(4, 1)
    assert len(wrong) == 4
    assert all(what in each.what for each in wrong)
