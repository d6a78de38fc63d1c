"""`trainway status` shows names whole, wherever it prints."""

from __future__ import annotations

import pytest

from trainway.launch.runs.names import LONGEST_RUN_NAME
from trainway.launch.runs.status import Row, how_it_ended, status_table
from trainway.launch.target.protocol import Phase

LONGEST = "a" * LONGEST_RUN_NAME
REASON = "the image [training:1.0] is absent, and nothing can be started without it; build it again"
ROWS = [
    Row(
        LONGEST, "kubernetes", "failed", "12/2000", ("ip-10-0-0-1", "ip-10-0-0-2"), "2026-11-23T10:00:00+00:00", REASON
    ),
    Row("first", "local", "running", None, (), "2026-11-23T10:00:00+00:00", ""),
]


@pytest.mark.parametrize("columns", ["60", "80", "200"])
def test_a_terminal_shows_the_whole_name(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("FORCE_COLOR", "1")
    status_table(ROWS)
    shown = capsys.readouterr().out
    assert LONGEST in shown
    assert "…" not in shown


def test_a_row_in_a_pipe_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    status_table(ROWS)
    heading, *lines = capsys.readouterr().out.splitlines()
    assert heading.split() == ["run", "target", "phase", "step", "left", "age", "nodes", "reason"]
    assert [line.split()[0] for line in lines] == [LONGEST, "first"]
    assert lines[0].rstrip().endswith(REASON)


@pytest.mark.parametrize(
    ("phase", "written", "ended"),
    [
        (Phase.RUNNING, None, None),
        (Phase.RUNNING, "failed", None),
        (Phase.STOPPED, "running", Phase.STOPPED),
        (Phase.GONE, None, Phase.GONE),
        (Phase.GONE, "running", Phase.GONE),
        (Phase.GONE, "succeeded", Phase.SUCCEEDED),
    ],
)
def test_a_run_says_how_it_ended_that_its_target_does_not_know(
    phase: Phase, written: str | None, ended: Phase | None
) -> None:
    assert how_it_ended(phase, {"state": written} if written else None) is ended
