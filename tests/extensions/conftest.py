"""Tests of extensions run in `make test-all` alone."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test below this folder as exhaustive."""
    item.add_marker(pytest.mark.exhaustive)
