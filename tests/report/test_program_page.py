"""The report of a program that is not Trainway's: its attempts, its numbers, and its outputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.report.test_page import Outline
from trainway.report import RunUnreadable, write_report
from trainway.report.program_run import read_program_run


def run_of(directory: Path, *attempts: list[dict[str, Any]], events: list[dict[str, Any]] | None = None) -> Path:
    """A run with these nodes in each attempt, and these numbers."""
    for number, nodes in enumerate(attempts, start=1):
        (directory / "attempts" / str(number)).mkdir(parents=True)
        for rank, node in enumerate(nodes):
            record = {"attempt": number, "node_rank": rank, "started": 100.0 * number, "time": 100.0 * number + 60}
            (directory / f"attempts/{number}/node-{rank}.json").write_text(json.dumps({**record, **node}))
    (directory / "metrics.jsonl").write_text("".join(json.dumps(each) + "\n" for each in events or []))
    (directory / "job.yaml").write_text("name: sft\nrun: {command: [torchrun, '<train>.py']}\n")
    (directory / "outputs").mkdir()
    (directory / "outputs" / "model.bin").write_bytes(b"0" * 2048)
    return directory


def at(step: int, loss: float, time: float) -> dict[str, Any]:
    return {"event": "metrics", "time": time, "step": step, "loss": loss}


def test_a_run_that_was_stopped_and_resumed(tmp_path: Path) -> None:
    stopped = [{"outcome": "stopped", "reason": "the program's exit status is 1"}, {"outcome": "stopped"}]
    done = [{"outcome": "succeeded"}, {"outcome": "succeeded"}]
    # Step 3 was done again, and the later number counts.
    events = [at(1, 4.0, 101), at(2, 3.0, 103), at(3, 9.0, 105), at(3, 2.5, 203), at(4, 2.0, 205)]
    run = run_of(tmp_path, stopped, done, events=events)
    found = read_program_run(run)
    assert [(each.outcome, each.reason, each.seconds) for each in found.attempts] == [
        ("stopped", "the program's exit status is 1", 60.0),
        ("succeeded", "", 60.0),
    ]
    assert [each.value for each in found.numbers["loss"]] == [4.0, 3.0, 2.5, 2.0]
    assert (found.last_step, found.step_seconds) == (4, 2.0)
    page = write_report(run).read_text()
    Outline(page)
    for said in ("Finished.", "loss: 4.000 at step 1, 2.000 at step 4", "<svg", "model.bin", "2,048", "stopped"):
        assert said in page
    assert "&lt;train&gt;.py" in page and "<train>" not in page
    assert write_report(run).read_text() == page, "the same run gives the same page"


def test_the_evaluations_of_checkpoints_are_a_table(tmp_path: Path) -> None:
    run = run_of(tmp_path, [{"outcome": "succeeded"}])
    assert "Evaluations" not in write_report(run).read_text()
    told = {"step": 4000, "run": "sft-step-4000", "phase": "succeeded", "reason": "", "numbers": {"accuracy": 0.75}}
    (run / "evaluations.json").write_text(json.dumps([told, {"step": 8000, "run": "x", "phase": "failed"}]))
    page = write_report(run).read_text()
    Outline(page)
    for said in ("<h2>Evaluations</h2>", "4,000", "sft-step-4000", "accuracy 0.7500", "failed"):
        assert said in page
    (run / "evaluations.json").write_text("[{}]")
    with pytest.raises(RunUnreadable, match="this file is damaged"):
        write_report(run)


def test_the_attempts_of_a_program_have_a_cost(tmp_path: Path) -> None:
    """Two attempts of 60 seconds, of two nodes at 30 dollars an hour."""
    done = [{"outcome": "succeeded"}, {"outcome": "succeeded"}]
    run = run_of(tmp_path, done, done)
    bought = {"instance_type": "g5.8xlarge", "bought": "on demand", "region": "us-west-2"}
    price = {**bought, "usd_per_hour": 30.0, "as_of": "2025-12"}
    record = {"target": "slurm", "started": "2026-11-25T00:00:00+00:00"}
    nodes = {"count": 2, "instance_type": "g5.8xlarge", "price": price}
    (run / "launch.json").write_text(json.dumps({**record, "nodes": nodes}))
    assert "Its attempts cost about $2.00: 2 × g5.8xlarge on demand for" in write_report(run).read_text()


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        (
            [
                {"outcome": "failed", "reason": "x.py: absent", "time": 180},
                {"outcome": "failed", "time": 190},
            ],
            "Failed: x.py: absent.",
        ),
        ([{"outcome": "succeeded"}, {"outcome": "running"}], "Did not finish: it was killed"),
    ],
)
def test_a_run_that_did_not_finish_says_why(nodes: list[dict[str, Any]], said: str, tmp_path: Path) -> None:
    page = write_report(run_of(tmp_path, nodes)).read_text()
    assert said in page and "The program reported no numbers" in page


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    run = run_of(tmp_path, [{"outcome": "succeeded"}])
    (run / "attempts/1/node-0.json").write_text("{}")
    with pytest.raises(RunUnreadable, match=r"node-0\.json"):
        write_report(run)


def test_numbers_that_are_not_finite_are_counted(tmp_path: Path) -> None:
    events = [at(1, 4.0, 101), {**at(2, 0, 103), "loss": float("nan")}]
    page = write_report(run_of(tmp_path, [{"outcome": "succeeded"}], events=events)).read_text()
    assert "At 1 step it is not a finite number" in page
