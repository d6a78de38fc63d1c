"""Starts the test files with the largest budgets first, so that no long file is left for one worker at the end.

All workers must collect the tests in one order. The order is therefore that of budgets.yaml, and not that of durations
which a run has measured.
"""

from __future__ import annotations

import pytest

from tests.durations import budget_of, load_budgets


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the budgets of their files, the largest first. Tests of one file keep their order."""
    budgets = load_budgets()
    items.sort(key=lambda item: -budget_of(item.nodeid.partition("::")[0], budgets))
