"""Measures the CPU seconds of test files and prints them after a run.

CPU seconds are user and system time of the process that runs a test and of its child processes. They depend little on
what else the machine does, so two runs can be compared. Nothing fails because a file needs more.

`make test` and `make test-all` write them to build/cpu-seconds.json, and shard K/N to build/cpu-seconds-K-of-N.json.
`python -m tests.durations` compares the figures of the suite that ran last with tests/cpu_seconds.yaml and prints the
files that need more than before. `python -m tests.durations --keep` keeps the figures. For shards, the names of their
files follow. tests/selection.py reads the kept figures to order the files and to divide them into shards.
"""

from __future__ import annotations

import json
import os
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest
import yaml

ROOT = Path(__file__).parents[1]
MEASURED = ROOT / "build" / "cpu-seconds.json"
KEPT = Path(__file__).with_name("cpu_seconds.yaml")
HEADER = (
    "# CPU seconds of the test files that need at least one. `python -m tests.durations --keep` writes this file.\n"
)
PRINTED = 20
# Fewer tests are a part of the suite, and their sum says nothing about the whole.
MANY_TESTS = 500
# `python -m tests.durations` reports a file that needs this many seconds more, and half more.
GROWN = 2.0

Seconds = dict[str, float]


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and its descendants since they started.

    Descendants that have ended count if their parent has waited for them.
    """
    ours = psutil.Process()
    total = sum(os.times()[:4])
    for descendant in ours.children(recursive=True):
        try:
            total += sum(descendant.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


class Measurement:
    """A plugin of each process that runs tests. It measures tests by themselves, and files with their daemons."""

    def __init__(self) -> None:
        self.files: Seconds = defaultdict(float)
        self.tests: Seconds = defaultdict(float)
        self._at_file = cpu_seconds()

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Leave the collection out of the first file."""
        self._at_file = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Any:
        """Measure a test with its fixtures, and at the last test of a file the whole file."""
        begun = sum(os.times()[:4])
        result = yield
        self.tests[item.nodeid] += sum(os.times()[:4]) - begun
        if nextitem is None or _file(nextitem.nodeid) != _file(item.nodeid):
            # A test's daemons are descendants that may outlive the test, so they are looked at once a file.
            now = cpu_seconds()
            self.files[_file(item.nodeid)] += max(0.0, now - self._at_file)
            self._at_file = now
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand the figures to the process that collects the reports of all workers."""
        if hasattr(session.config, "workeroutput"):
            # execnet sends no subclass of dict.
            session.config.workeroutput["cpu_seconds"] = {"files": dict(self.files), "tests": dict(self.tests)}


class Summary:
    """A plugin of the process that collects the reports of all workers. `own` is its own measurement."""

    def __init__(self, own: Measurement) -> None:
        self._own = own
        self._of_workers: list[dict[str, Seconds]] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the figures of a worker, which are absent if the worker crashed."""
        if figures := getattr(node, "workeroutput", {}).get("cpu_seconds"):
            self._of_workers.append(figures)

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the sum of the seconds, and the files and tests that need the most. Write those of a whole suite."""
        measured = [{"files": self._own.files, "tests": self._own.tests}, *self._of_workers]
        files, tests = (merged(each[kind] for each in measured) for kind in ("files", "tests"))
        if len(tests) < MANY_TESTS:
            return
        terminalreporter.section(f"CPU seconds of {len(tests)} tests, without the collection")
        terminalreporter.line(f"{sum(files.values()):8.1f}  all {len(files)} files")
        for name, seconds in [*list(files.items())[:PRINTED], *list(tests.items())[:PRINTED]]:
            terminalreporter.line(f"{seconds:8.1f}  {name}")
        if suite := suite_of(config):
            shard = config.getoption("--shard")
            file = MEASURED.with_stem(f"{MEASURED.stem}-{shard.replace('/', '-of-')}") if shard else MEASURED
            figures = {"suite": suite, "shard": shard, "files": files, "tests": tests}
            try:
                file.parent.mkdir(exist_ok=True)
                file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
            except OSError as error:
                terminalreporter.line(f"They are not kept: {error}")
            else:
                terminalreporter.line(f"All of them are in {file.relative_to(ROOT)}.")


def suite_of(config: pytest.Config) -> str | None:
    """Return `test` or `test-all` if the run is that suite or a shard of it, and None otherwise."""
    options = ("--changed", "keyword")
    named = config.args_source != pytest.Config.ArgsSource.TESTPATHS
    if named or any(config.getoption(name) for name in options):
        return None
    return {"not exhaustive": "test", "": "test-all"}.get(config.getoption("markexpr"))


def merged(measured: Any) -> Seconds:
    """Add up several measurements by name, and return the largest sums first."""
    added: Seconds = defaultdict(float)
    for each in measured:
        for name, seconds in each.items():
            added[name] += round(seconds, 3)
    return dict(sorted(added.items(), key=lambda entry: (-entry[1], entry[0])))


@cache
def kept() -> dict[str, Seconds]:
    """Return the kept CPU seconds by suite, `test` or `test-all`, and by test file."""
    loaded: dict[str, Seconds] = yaml.safe_load(KEPT.read_text(encoding="utf-8"))
    return loaded


def grown(now: Seconds, before: Seconds) -> list[str]:
    """Return a line for each file that needs at least GROWN seconds more, and half more, than before."""
    return [
        f"{file} needs {seconds:.1f} CPU s, and needed {before.get(file, 1.0):.1f}"
        for file, seconds in now.items()
        if seconds > 1.5 * before.get(file, 1.0) and seconds - before.get(file, 1.0) > GROWN
    ]


def suite_in(measured: Sequence[Mapping[str, Any]]) -> tuple[str, Seconds]:
    """Return the suite of some measurements and its CPU seconds by file.

    Raises ValueError unless they are one whole suite, or all shards of one suite.
    """
    suites, shards = {each["suite"] for each in measured}, sorted(str(each["shard"]) for each in measured)
    number = len(measured)
    if len(suites) > 1 or shards not in (["None"], sorted(f"{part}/{number}" for part in range(1, number + 1))):
        raise ValueError(f"these are not all shards of one suite: {', '.join(shards)} of {', '.join(sorted(suites))}")
    return suites.pop(), merged(each["files"] for each in measured)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def main(arguments: list[str]) -> None:
    """Print what grew since the figures were kept, or keep those of the last `make test` or `make test-all`."""
    named = [Path(each) for each in arguments if each != "--keep"] or [MEASURED]
    if absent := [str(each) for each in named if not each.exists()]:
        sys.exit(f"{', '.join(absent)}: no such file; run `make test` or `make test-all` first")
    try:
        suite, files = suite_in([json.loads(each.read_text(encoding="utf-8")) for each in named])
    except ValueError as error:
        sys.exit(f"{error}")
    if "--keep" not in arguments:
        print(*grown(files, kept().get(suite, {})) or ["no file grew"], sep="\n")
        return
    figures = {**kept(), suite: {file: round(seconds, 1) for file, seconds in sorted(files.items()) if seconds >= 1}}
    KEPT.write_text(HEADER + yaml.safe_dump(figures), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
