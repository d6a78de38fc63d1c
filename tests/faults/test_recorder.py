"""The record of the faults has the ends and the pauses of their runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.pauses import longest_pause
from tests.faults.recorder import Recorder
from tests.faults.table import SAME, Fault


def step(number: int, at: float) -> str:
    return json.dumps({"event": "step", "step": number, "time": at})


@pytest.mark.parametrize(
    ("lines", "pause"),
    [
        ([step(1, 10), step(2, 11), step(3, 15), step(4, 16)], 4),
        ([step(1, 10), step(2, 11), step(3, 12), step(2, 15), step(3, 16), step(4, 17)], 5),
        ([step(1, 10), step(2, 11), step(3, 12 - 600), step(4, 15 - 600)], 3),
        ([step(1, 10), step(2, 11)[:20], '{"event": "start", "time": 30}', step(2, 40)], 30),
        ([step(1, 10)], None),
        ([], None),
    ],
    ids=["longest", "repeated steps", "a clock that jumps back", "other lines", "one step", "none"],
)
def test_a_pause_is_the_longest_time_between_two_new_steps(
    lines: list[str], pause: float | None, tmp_path: Path
) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.write_text("\n".join(lines))
    assert longest_pause(metrics) == pause


PLANTED = """
import json, pytest
@pytest.fixture
def run(tmp_path):
    (tmp_path / "run").mkdir()
    return tmp_path / "run/metrics.jsonl"
def steps(run, *times):
    events = [{"event": "step", "step": number, "time": at} for number, at in enumerate(times, 1)]
    run.write_text("".join(json.dumps(event) + chr(10) for event in events))
@pytest.mark.parametrize("pause", [2, 3, 7])
def test_survives(run, pause):
    steps(run, 0, 1, 1 + pause)
@pytest.mark.parametrize("loss", [0, 1])
def test_another_loss(run, loss):
    steps(run, 0, 1 + loss)
    assert not loss
def test_without_steps():
    pass
@pytest.mark.skip(reason="not installed: slurmd")
def test_needs_slurm():
    pass
@pytest.fixture
def broken():
    raise OSError
def test_cannot_begin(broken):
    pass
"""


def test_the_record_has_every_case_of_the_test_of_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "test_planted.py"
    file.write_text(PLANTED)
    tests = ("test_survives", "test_another_loss", "test_without_steps", "test_needs_slurm", "test_cannot_begin")
    recorder = Recorder([Fault(name[5:], "", SAME, f"test_planted.py::{name}") for name in (*tests, "test_left_out")])
    options = ["-q", "-p", "no:cacheprovider", f"--rootdir={tmp_path}", f"--confcutdir={tmp_path}", "-c", "/dev/null"]
    for _ in range(2):
        assert pytest.main([*options, f"--basetemp={tmp_path / 'runs'}", str(file)], plugins=[recorder]) == 1

    def one(runs: int, as_promised: int, *seconds: float) -> dict[str, Any]:
        spread = dict(zip(("least", "median", "most"), seconds, strict=True)) if seconds else None
        return {"runs": runs, "as_promised": as_promised, "seconds": spread}

    assert recorder.figures() == {
        "survives": one(6, 6, 2, 3, 7),
        "another_loss": one(4, 2, 1, 1, 1),
        "without_steps": one(2, 2),
        "needs_slurm": {"skipped": "not installed: slurmd"},
        "cannot_begin": one(2, 0),
    }
