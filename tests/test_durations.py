"""CPU seconds are measured by file, and say which files grew."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.durations import ROOT, Measurement, Summary, cpu_seconds, grown, kept, merged, suite_in, suite_of

pytest_plugins = ["pytester"]

# The kernel counts CPU time in steps of 10 ms, so the tests ask for a little less than what was burnt.
BURN = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"


def test_a_child_process_counts_while_it_runs_and_after_its_end() -> None:
    before = cpu_seconds()
    subprocess.run([sys.executable, "-c", BURN.format(0.3)], check=True)
    assert cpu_seconds() - before >= 0.25
    before = cpu_seconds()
    running = subprocess.Popen(
        [sys.executable, "-c", BURN.format(0.3) + "\nprint('burnt', flush=True)\ninput()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert running.stdout and running.stdout.readline() == b"burnt\n"
    assert cpu_seconds() - before >= 0.25
    running.communicate(b"\n")


def test_a_file_has_the_seconds_of_its_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_busy=f"""
            def test_burns(): exec({BURN.format(0.2)!r})
            def test_burns_again(): exec({BURN.format(0.2)!r})
        """,
        test_idle="def test_does_nothing(): pass",
    )
    measurement = Measurement()
    pytester.inline_run(plugins=[measurement])
    assert set(measurement.files) == {"test_busy.py", "test_idle.py"}
    assert measurement.files["test_busy.py"] >= 0.35
    assert measurement.tests["test_busy.py::test_burns"] >= 0.15
    assert measurement.files["test_idle.py"] < measurement.files["test_busy.py"]


def test_a_worker_sends_its_figures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_busy=f"def test_burns(): exec({BURN.format(0.2)!r})")
    pytester.makeconftest(
        """
        from tests.durations import Measurement, Summary

        def pytest_configure(config):
            config.pluginmanager.register(measurement := Measurement())
            if not hasattr(config, "workerinput"):
                config.pluginmanager.register(summary := Summary(measurement))
                config.add_cleanup(lambda: print("workers:", *summary._of_workers))
        """
    )
    pytester.syspathinsert(ROOT)
    result = pytester.runpytest_subprocess("--numprocesses", "1")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"workers: \{'files': \{'test_busy.py': 0\.[1-9].*'test_busy.py::test_burns': 0\."])


def test_the_figures_of_workers_are_added_up() -> None:
    assert merged([{"tests/a.py": 1.0, "tests/b.py": 2.0}, {"tests/a.py": 3.5}]) == {
        "tests/a.py": 4.5,
        "tests/b.py": 2.0,
    }


def test_a_worker_that_crashed_has_no_figures() -> None:
    summary = Summary(Measurement())
    summary.pytest_testnodedown(object())
    assert summary._of_workers == []


def test_the_collection_counts_for_no_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_slow=f"exec({BURN.format(0.3)!r})\n\ndef test_does_nothing(): pass")
    measurement = Measurement()
    pytester.inline_run(plugins=[measurement])
    assert measurement.files["test_slow.py"] < 0.25


@pytest.mark.parametrize(
    ("options", "suite"),
    [
        (("-m", "not exhaustive"), "test"),
        ((), "test-all"),
        (("-m", "exhaustive"), None),
        (("--shard=1/2",), "test-all"),
        (("--changed=HEAD",), None),
        (("-k", "one"), None),
        (("tests/test_durations.py",), None),
    ],
)
def test_a_part_of_a_suite_that_is_no_shard_is_not_kept(
    options: tuple[str, ...], suite: str | None, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    assert suite_of(pytester.parseconfig(*options)) == suite


def shard(number: int, suite: str = "test-all") -> dict[str, object]:
    return {"suite": suite, "shard": f"{number}/3", "files": {f"tests/test_{number}.py": float(number)}}


def test_all_shards_are_a_suite() -> None:
    files = {"tests/test_1.py": 1.0, "tests/test_2.py": 2.0, "tests/test_3.py": 3.0}
    assert suite_in([shard(3), shard(1), shard(2)]) == ("test-all", files)
    assert suite_in([{"suite": "test", "shard": None, "files": files}]) == ("test", files)


@pytest.mark.parametrize("shards", [[shard(1), shard(2)], [shard(1)], [shard(1), shard(2), shard(3, "test")]])
def test_some_shards_are_no_suite(shards: list[dict[str, object]]) -> None:
    with pytest.raises(ValueError, match="not all shards of one suite: 1/3"):
        suite_in(shards)


def test_a_file_that_needs_more_than_before_is_named() -> None:
    now = {"tests/a.py": 9.0, "tests/b.py": 12.0, "tests/new.py": 4.0, "tests/small.py": 1.9}
    before = {"tests/a.py": 2.0, "tests/b.py": 10.0, "tests/small.py": 1.0}
    assert grown(now, before) == [
        "tests/a.py needs 9.0 CPU s, and needed 2.0",
        "tests/new.py needs 4.0 CPU s, and needed 1.0",
    ]


def test_every_kept_figure_is_of_a_test_file() -> None:
    figures = kept()
    assert set(figures) == {"test", "test-all"}
    for file in {file for suite in figures.values() for file in suite}:
        assert Path(file).name.startswith("test_")
        assert (ROOT / file).exists(), f"{file} is gone: remove its line in tests/cpu_seconds.yaml"
