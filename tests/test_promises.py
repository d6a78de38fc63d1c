"""Each promise has a test in `make test`, and docs/promises.md names the suite of each test."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from functools import cache

from tests.synthesis import ROOT

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/promises.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "`tests/" in line
]
SECURITY = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def named(text: str) -> list[str]:
    """Return the test files and tests that a text names."""
    return re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", text)


# Collects tests, and prints whether each is exhaustive, and its ID.
COLLECT = """
import sys
import pytest

class Report:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("exhaustive" if item.get_closest_marker("exhaustive") else "daily", item.nodeid)

sys.exit(pytest.main(sys.argv[1:], plugins=[Report()]))
"""


@cache
def collected() -> Mapping[str, frozenset[str]]:
    """Return the tests, without their parameters, and the files that pytest collects of those that the pages name.

    They are those of `make test`, `daily`, and the `exhaustive` ones.
    """
    asked = sorted({each for row in ROWS for each in named("".join(row))} | set(named(SECURITY)))
    command = [sys.executable, "-c", COLLECT, "--collect-only", "-qq", "-p", "no:cacheprovider", *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, set[str]] = {"daily": set(), "exhaustive": set()}
    for kind, _, test in (line.partition(" ") for line in done.stdout.splitlines()):
        if kind in found:
            name = test.partition("[")[0]
            found[kind] |= {name, name.partition("::")[0]}
    return {kind: frozenset(names) for kind, names in found.items()}


def test_each_promise_has_a_test_in_make_test() -> None:
    assert len(ROWS) > 20
    for promise, daily, _ in ROWS:
        assert named(daily), promise
        assert set(named(daily)) <= collected()["daily"], promise


def test_a_test_of_make_test_all_exists_and_tries_more() -> None:
    for promise, _, nightly in ROWS:
        assert set(named(nightly)) <= collected()["exhaustive"], promise


def test_each_test_of_the_threat_model_is_in_make_test() -> None:
    tests = set(named(SECURITY))
    assert len(tests) > 30
    assert tests <= collected()["daily"], sorted(tests - collected()["daily"])
