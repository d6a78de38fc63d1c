"""metrics.jsonl is read as it is found: cut off, resumed, not finite. What is damaged is named to the line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from trainway.report import RunUnreadable
from trainway.report.events import Start, Step, read_events

if TYPE_CHECKING:
    from tests.report.conftest import RunDirectory


def test_events_come_in_the_order_of_the_file(run: RunDirectory) -> None:
    run.start().steps(1, 4).end(4)
    kinds = [event.event for event in read_events(run.path)]
    assert kinds == ["start", "step", "step", "step", "checkpoint", "step", "end"]


def test_a_last_line_that_was_cut_off_is_left_out(run: RunDirectory) -> None:
    whole = run.start().steps(1, 2).path / "metrics.jsonl"
    line = whole.read_text().splitlines()[-1]
    for cut in (1, len(line) // 2, len(line) - 1):
        run.text(line[:cut])
        assert len(read_events(run.path)) == 3
        whole.write_text(whole.read_text()[:-cut])


def test_a_whole_last_line_counts_even_without_its_newline(run: RunDirectory) -> None:
    path = run.start().steps(1, 2).path / "metrics.jsonl"
    path.write_text(path.read_text().rstrip("\n"))
    assert len(read_events(run.path)) == 3


def test_losses_that_are_not_finite_are_read_as_python_writes_them(run: RunDirectory) -> None:
    run.start().step(1, loss=math.nan).step(2, loss=math.inf).step(3, grad_norm=-math.inf)
    _, first, second, third = read_events(run.path)
    assert isinstance(first, Step) and isinstance(second, Step) and isinstance(third, Step)
    assert math.isnan(first.loss)
    assert second.loss == math.inf
    assert third.grad_norm == -math.inf


def test_what_a_newer_job_says_besides_is_no_obstacle(run: RunDirectory) -> None:
    run.start(tensor_parallel=8).event("rewound", {"step": 1, "to_step": 0}).step(1)
    assert [event.event for event in read_events(run.path)] == ["start", "step"]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{not json}", "Expecting property name"),
        ("[1, 2]", "not a JSON object"),
        ("{}", "Unable to extract tag using discriminator 'event'"),
        ('{"event": "step", "time": 1.0}', "step.step: Field required"),
        ('{"event": "end", "time": 1.0, "step": 1, "loss": "low", "loss_hex": "", "seconds": 1}', "end.loss"),
    ],
)
def test_a_damaged_line_is_named_with_its_number_and_the_reason(run: RunDirectory, line: str, why: str) -> None:
    run.start().step(1).text(line + "\n").step(2)
    with pytest.raises(RunUnreadable) as caught:
        read_events(run.path)
    assert caught.value.line == 3
    assert f"{run.path / 'metrics.jsonl'}:3: " in str(caught.value)
    assert why in caught.value.why
    assert caught.value.remedy


def test_bytes_that_are_no_text_are_a_damaged_line_too(run: RunDirectory) -> None:
    path = run.start().path / "metrics.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event": "\xff\xfe"}\n')
    with pytest.raises(RunUnreadable, match=r"metrics\.jsonl:2"):
        read_events(run.path)


def test_a_directory_that_is_not_there_is_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadable, match="not a run directory") as caught:
        read_events(tmp_path / "nowhere")
    assert caught.value.where == tmp_path / "nowhere"


def test_a_run_that_wrote_no_metrics_points_to_its_logs(tmp_path: Path) -> None:
    with pytest.raises(RunUnreadable, match=r"metrics cannot be read") as caught:
        read_events(tmp_path)
    assert str(tmp_path / "logs") in caught.value.remedy


@pytest.mark.parametrize("content", ["", "\n", '{"event": "sta'])
def test_metrics_without_a_start_are_refused(run: RunDirectory, content: str) -> None:
    run.text(content)
    with pytest.raises(RunUnreadable, match="no start event"):
        read_events(run.path)


def test_metrics_that_begin_with_a_step_are_refused(run: RunDirectory) -> None:
    run.step(1).start()
    with pytest.raises(RunUnreadable, match="no start event"):
        read_events(run.path)


def test_the_start_event_of_the_job_is_read_whole(run: RunDirectory) -> None:
    (event,) = read_events(run.start(resumed_from=40).path)
    assert isinstance(event, Start)
    assert event.model_dump() == json.loads((run.path / "metrics.jsonl").read_text())
