"""Each promise has a test in `make test`, and docs/promises.md names the suite of each test."""

from __future__ import annotations

import re
import subprocess
import sys
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


@cache
def collected(*options: str) -> frozenset[str]:
    """Return the tests, without their parameters, and the files that pytest collects of those that the pages name."""
    asked = sorted({each for row in ROWS for each in named("".join(row))} | set(named(SECURITY)))
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, *asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    ids = [line.partition("[")[0] for line in done.stdout.splitlines() if line.startswith("tests/")]
    return frozenset(ids) | frozenset(each.partition("::")[0] for each in ids)


def test_each_promise_has_a_test_in_make_test() -> None:
    assert len(ROWS) > 20
    for promise, daily, _ in ROWS:
        assert named(daily), promise
        assert set(named(daily)) <= collected("-m", "not exhaustive"), promise


def test_a_test_of_make_test_all_exists_and_tries_more() -> None:
    for promise, _, nightly in ROWS:
        assert set(named(nightly)) <= collected("-m", "exhaustive"), promise


def test_each_test_of_the_threat_model_is_in_make_test() -> None:
    tests = set(named(SECURITY))
    assert len(tests) > 30
    assert tests <= collected("-m", "not exhaustive"), sorted(tests - collected("-m", "not exhaustive"))
