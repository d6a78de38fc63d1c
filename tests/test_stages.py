"""A long command tells each stage in a line, and keeps everything else in its log."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import pytest

from trainway.spec.errors import UsageError
from trainway.stages import Stages


def test_a_stage_is_one_line_and_its_output_is_in_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Stages(tmp_path / "runs" / "first.log")) as stages, stages.stage("count to three"):
        stages.run([sys.executable, "-c", "print('one'); print('two'); print('three')"])
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1
    assert printed[0].startswith("── count to three  ")
    assert {"one", "two", "three"} <= set((tmp_path / "runs/first.log").read_text().splitlines())


def test_a_stage_that_fails_shows_its_last_lines_and_its_command(tmp_path: Path) -> None:
    program = "import sys; print('a' * 9); print('no such bucket', file=sys.stderr); sys.exit(3)"
    stages = Stages(tmp_path / "first.log")
    with closing(stages), pytest.raises(UsageError) as failed, stages.stage("deploy"):
        stages.run([sys.executable, "-c", program])
    message = str(failed.value)
    assert "no such bucket" in message
    assert "ended with 3" in message
    assert str(stages.log) in message


def test_steps_end_with_one_line_where_there_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Stages(tmp_path / "first.log")) as stages, stages.steps("train", 4, lambda: (2, "loss 1.0")) as log:
        print("step=1", file=log)
    printed = capsys.readouterr().out.split("\n")
    assert [line for line in printed if line.strip()] == [printed[-2]]
    assert printed[-2].startswith("── train  ")
    assert "step=1" in (tmp_path / "first.log").read_text()
