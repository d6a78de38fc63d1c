"""Programs take turns in alternating order, and a claim holds only where the quartiles decide it."""

from __future__ import annotations

import select
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from benchmarks import __main__ as every_benchmark
from benchmarks.turns import MARK, Spread, ratios, take_turns, verdict

if TYPE_CHECKING:
    from pathlib import Path


def test_every_second_round_is_in_reverse_order() -> None:
    order: list[str] = []
    take_turns({name: lambda name=name: order.append(name) for name in "ABC"}, 4)  # type: ignore[misc]
    assert "".join(order) == "ABCCBAABCCBA"


def test_a_ratio_is_that_of_two_turns_of_one_round() -> None:
    # The machine is half as fast in the last two rounds, which no ratio shows.
    assert ratios([2, 2, 4, 4], [1, 1, 2, 2]) == Spread(2, 2, 2, 4)


def test_a_spread_in_a_result_file_is_read_as_it_was() -> None:
    spread = Spread.of([1.0, 2.0, 3.0, 4.0, 5.0])
    assert spread == Spread(3, 2, 4, 5)
    assert Spread.read(spread.document()) == spread


@pytest.mark.parametrize(
    ("spread", "at_least", "control", "expected"),
    [
        (Spread(0.57, 0.52, 0.60, 9), True, None, "holds"),
        (Spread(0.52, 0.47, 0.57, 9), True, None, "not resolved"),
        (Spread(0.44, 0.40, 0.47, 9), True, None, "does not hold"),
        (Spread(0.44, 0.40, 0.47, 9), False, None, "holds"),
        (Spread(0.52, 0.47, 0.57, 9), False, None, "not resolved"),
        (Spread(0.57, 0.52, 0.60, 9), False, None, "does not hold"),
        (Spread(0.57, 0.52, 0.60, 9), True, Spread(1.01, 0.98, 1.05, 9), "holds"),
        (Spread(0.57, 0.52, 0.60, 9), True, Spread(1.10, 1.02, 1.15, 9), "not resolved"),
    ],
)
def test_a_claim_of_one_half(spread: Spread, at_least: bool, control: Spread | None, expected: str) -> None:
    assert verdict(spread, 0.5, at_least, control) == expected


def test_a_loop_takes_no_step_before_its_turn() -> None:
    lines = "turns = Turns()\nfor step in range(2):\n    print('step', step, flush=True)\n    turns.next()\n"
    program = f"from benchmarks.turns import Turns\nprint('ready', flush=True)\n{lines}"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as loop:
        assert loop.stdin
        assert loop.stdout
        assert loop.stdout.readline() == b"ready\n"
        for step in range(2):
            printed, _, _ = select.select([loop.stdout], [], [], 0.3)
            assert not printed, f"step {step} ran without a turn"
            loop.stdin.write(b"\n")
            assert loop.stdout.readline() == f"step {step}\n".encode()
            assert loop.stdout.readline().decode().startswith(MARK)
        loop.kill()


def test_all_benchmarks_of_a_machine_without_a_gpu_end_within_15_minutes() -> None:
    assert sum(every_benchmark.LIMITS.values()) <= 15 * 60


def test_a_benchmark_that_fails_or_takes_too_long_has_a_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "benchmarks"
    package.mkdir()
    for name, text in {"fails": "raise SystemExit(3)", "hangs": "import time; time.sleep(3600)", "ends": ""}.items():
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert every_benchmark.run("fails", 300) == "ended with status 3"
    assert every_benchmark.run("hangs", 1) == "took longer than 1 seconds"
    assert every_benchmark.run("ends", 300) == ""
