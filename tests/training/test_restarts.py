"""A run starts again for as long as it makes progress, however often its nodes and processes are new."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from training.hosts.restarts import RESTARTS, count_start, take_back_start


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run that may start twice again without a new checkpoint."""
    monkeypatch.setenv(RESTARTS, "2")
    monkeypatch.setenv("TRAINWAY_JOB", str(tmp_path / "job.yaml"))
    return tmp_path / "run"


def checkpoint(run: Path, step: int) -> None:
    """Write the event of a complete checkpoint."""
    run.mkdir(exist_ok=True)
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"event": "checkpoint", "step": step, "location": f"/c/step-{step}"}) + "\n")


def test_starts_without_a_checkpoint_are_counted_and_the_last_one_is_refused(run: Path) -> None:
    assert [count_start(run) for _ in range(3)] == [None, None, None]
    why = "it started 3 times since its launch, and has no checkpoint, and life_cycle.restarts is 2"
    assert count_start(run) == why


def test_each_new_checkpoint_allows_all_restarts_again(run: Path) -> None:
    for step in range(0, 100, 10):
        checkpoint(run, step)
        assert [count_start(run) for _ in range(3)] == [None, None, None]
    assert count_start(run) == "it started 3 times since the checkpoint of step 90, and life_cycle.restarts is 2"


def test_a_start_that_ended_because_it_was_told_to_does_not_count(run: Path) -> None:
    for _ in range(20):
        assert count_start(run) is None
        take_back_start(run)


def test_another_launch_begins_to_count_anew(run: Path) -> None:
    for launch in ("one", "two", "one"):
        run.with_name("launch-id").write_text(launch)
        assert [count_start(run) for _ in range(3)] == [None, None, None]
        assert count_start(run) is not None


def test_a_start_under_slurm_counts_until_the_run_is_another_job(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm tells the nodes that are left to stop, when it has lost one."""
    for job in ("7", "8"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        for _ in range(3):
            assert count_start(run) is None
            take_back_start(run)
        assert count_start(run) is not None


@pytest.mark.parametrize("variable", ["JOB_COMPLETION_INDEX", "SLURM_NODEID"])
def test_only_the_first_node_counts(variable: str, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "3")
    assert [count_start(run) for _ in range(9)] == [None] * 9
    assert not run.exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"launch": 1}', '{"launch": "", "step": "x", "count": null}'])
def test_a_damaged_count_begins_anew(text: str, run: Path) -> None:
    run.mkdir()
    (run / "restarts.json").write_text(text)
    assert [count_start(run) for _ in range(3)] == [None, None, None]
    assert count_start(run) is not None


def test_nothing_is_counted_where_the_target_starts_no_run_again(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RESTARTS)
    assert [count_start(run) for _ in range(9)] == [None] * 9
    take_back_start(run)
    assert not run.exists()
