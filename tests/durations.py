"""Keeps how long every test file takes, and prints the longest tests of a run and the files above their budgets.

A budget is the seconds of the file's tests with their fixtures, added up, on two cores. A budget orders the files, and
fails nothing: elapsed time depends on what else the machine does.

`python -m tests.durations` prints the budgets that the last run suggests.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "test-durations.json"
BUDGETS = Path(__file__).with_name("budgets.yaml")
LONGEST = 20
# Fewer tests are a part of the suite, whose durations say nothing about the whole.
MANY_TESTS = 500


class Durations:
    """A plugin of the process that collects the reports of all workers."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the set-up, call, and tear-down of a test."""
        self._seconds[report.nodeid] += report.duration

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the longest tests, and the files that are over their budget."""
        if len(self._seconds) < MANY_TESTS:
            return
        longest = sorted(self._seconds.items(), key=lambda each: -each[1])
        KEPT.parent.mkdir(exist_ok=True)
        KEPT.write_text(json.dumps(dict(longest), indent=1) + "\n", encoding="utf-8")
        terminalreporter.section(f"{LONGEST} longest of {len(longest)} tests; all are in {KEPT.relative_to(ROOT)}")
        for name, seconds in longest[:LONGEST]:
            terminalreporter.line(f"{seconds:7.1f} s  {name}")
        for line in self._over_budget():
            terminalreporter.line(line, red=True)

    def _over_budget(self) -> list[str]:
        return over_budget(self._seconds, load_budgets())


def load_budgets() -> dict[str, Any]:
    """Return the budgets: a `default`, and `files` with budgets of their own, all in seconds."""
    loaded: dict[str, Any] = yaml.safe_load(BUDGETS.read_text(encoding="utf-8"))
    return loaded


def budget_of(file: str, budgets: dict[str, Any]) -> float:
    """Return the seconds that the tests of a file may take."""
    return float(budgets["files"].get(file, budgets["default"]))


def suggestions(seconds: dict[str, float], budgets: dict[str, Any]) -> list[str]:
    """Return lines of budgets.yaml, three times the seconds of a file, for files that the default is too small for."""
    return [
        f"  {file}: {3 * taken:.0f}"
        for file, taken in sorted(by_file(seconds).items(), key=lambda each: -each[1])
        if 3 * taken > budgets["default"]
    ]


def by_file(seconds: dict[str, float]) -> dict[str, float]:
    """Add up the seconds of tests, given by test id, by the test's file."""
    added: dict[str, float] = defaultdict(float)
    for name, taken in seconds.items():
        added[name.partition("::")[0]] += taken
    return added


def over_budget(seconds: dict[str, float], budgets: dict[str, Any]) -> list[str]:
    """Return a line for each file whose tests took longer than its budget.

    `seconds` are by test id. `budgets` has a `default`, and `files` with budgets of their own, all in seconds.
    """
    taken_by = by_file(seconds)
    budget = {file: budget_of(file, budgets) for file in taken_by}
    return [
        f"{file} took {taken:.0f} s, and its budget is {budget[file]:.0f} s: make it faster, or raise the budget in "
        f"{BUDGETS.relative_to(ROOT)} and say why there"
        for file, taken in sorted(taken_by.items())
        if taken > budget[file]
    ]


if __name__ == "__main__":
    print(*suggestions(json.loads(KEPT.read_text(encoding="utf-8")), load_budgets()), sep="\n")
