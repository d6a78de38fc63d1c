"""A plugin of pytest that notes how the runs of each fault end, and for how long they stand still."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.faults.pauses import METRICS, longest_pause
from tests.faults.table import Fault

TESTS = Path(__file__).parents[1]


class Recorder:
    """What the tests of some faults have shown so far, in all repetitions. A case of a test is one run."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self._names = {fault.test: fault.name for fault in faults}
        self._ends: dict[str, list[bool]] = {}
        self._pauses: dict[str, list[float]] = {}
        self._skipped: dict[str, str] = {}

    def figures(self) -> dict[str, dict[str, Any]]:
        """Return for each fault the number of runs, of those that ended as promised, and the seconds of the pause.

        A fault whose test was skipped has the reason.
        """
        found: dict[str, dict[str, Any]] = {name: {"skipped": reason} for name, reason in self._skipped.items()}
        for name, ends in self._ends.items():
            found[name] = {"runs": len(ends), "as_promised": sum(ends), "seconds": _spread(self._pauses.get(name, []))}
        return {name: found[name] for name in self._names.values() if name in found}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Function) -> Iterator[None]:
        """Run a test, and read the metrics that its runs have written meanwhile."""
        before = _metrics_of(item)
        yield
        # A test that fails raises here, and its run may never have continued.
        pauses = [longest_pause(path) for path, size in _metrics_of(item).items() if before.get(path) != size]
        pause = max((pause for pause in pauses if pause is not None), default=None)
        name = self._name_of(item.nodeid)
        if pause is not None:
            self._pauses.setdefault(name, []).append(pause)
        print(f"longest pause between two new steps: {'unknown' if pause is None else f'{pause:.1f} s'}")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how a case ended."""
        name = self._name_of(report.nodeid)
        if report.skipped:
            _, _, reason = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, str(report.longrepr))
            self._skipped[name] = reason.removeprefix("Skipped: ")
        elif report.when == "call" or report.failed:
            self._ends.setdefault(name, []).append(report.passed)

    def _name_of(self, node: str) -> str:
        file, _, test = node.partition("::")
        return self._names[f"{file.removeprefix(f'{TESTS.name}/')}::{test.partition('[')[0]}"]


def _metrics_of(item: pytest.Function) -> dict[Path, int]:
    """Return the metrics below the directories of a test, with their number of bytes."""
    directories = {value for value in item.funcargs.values() if isinstance(value, Path) and value.is_dir()}
    return {path: path.stat().st_size for each in directories for path in each.rglob(METRICS)}


def _spread(seconds: list[float]) -> dict[str, float] | None:
    if not seconds:
        return None
    found = {"least": min(seconds), "median": statistics.median(seconds), "most": max(seconds)}
    return {name: round(value, 1) for name, value in found.items()}
