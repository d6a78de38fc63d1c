"""A test file that takes longer than its budget is named with both figures."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.durations import BUDGETS, ROOT, budget_of, load_budgets, over_budget
from tests.longest_first import longest_first


def test_a_file_over_its_budget_is_named() -> None:
    seconds = {"tests/a.py::one": 30.0, "tests/a.py::two": 31.0, "tests/b.py::one": 59.0}
    budgets = {"default": 60, "files": {"tests/b.py": 50}}
    assert [line.partition(":")[0] for line in over_budget(seconds, budgets)] == [
        "tests/a.py took 61 s, and its budget is 60 s",
        "tests/b.py took 59 s, and its budget is 50 s",
    ]


def test_every_budget_is_of_a_test_file() -> None:
    for file in yaml.safe_load(BUDGETS.read_text(encoding="utf-8"))["files"]:
        assert Path(file).name.startswith("test_")
        assert (ROOT / file).exists()


def test_the_largest_files_come_first_and_their_tests_keep_their_order(request: pytest.FixtureRequest) -> None:
    items = list(request.session.items)
    longest_first(items)
    budgets = load_budgets()
    seconds = [budget_of(item.nodeid.partition("::")[0], budgets) for item in items]
    assert seconds == sorted(seconds, reverse=True)
    assert items == request.session.items, "the session has been sorted"
