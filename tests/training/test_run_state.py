"""A training job writes its state to the file that the launcher names, and never fails because of it."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.lifecycle_scripts.slurm_cluster import wait_for
from trainway.launch.registry.state import RunState, parse_state


def state_of(file: Path) -> RunState | None:
    return parse_state(file.read_text()) if file.exists() else None


def test_a_run_writes_its_steps_its_checkpoint_and_how_it_ended(
    launch: Any, job: dict[str, Any], tmp_path: Path
) -> None:
    from training.hosts.this_node import this_node

    file = tmp_path / "state"
    told = {"TRAINWAY_STATE": str(file), "TRAINWAY_STATE_SECONDS": "0.2"}
    first = launch(job, 1, **told)
    wait_for("it runs", lambda: bool((now := state_of(file)) and now.step))
    for pid in first.workers():
        # On a busy machine, the first attempt can have ended before its signal. The second one then takes no step.
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    first.finish()
    stopped = state_of(file)
    assert stopped is not None and stopped.steps == job["steps"]
    if stopped.step != job["steps"]:
        assert (stopped.state, stopped.attempt) == ("stopped", 1)

    launch(job, 1, **told).finish()
    done = state_of(file)
    assert done is not None and (done.state, done.attempt) == ("succeeded", 2)
    assert done.nodes == (this_node(),)
    last = done if stopped.step != job["steps"] else stopped
    assert last.step == last.steps == job["steps"] and last.loss and last.step_seconds
    assert last.checkpoint is not None and last.checkpoint["step"] == job["steps"]
    assert [(each.attempt, each.state, each.step) for each in done.earlier] == [(1, stopped.state, stopped.step)]
    assert last.first_step and last.productive and last.stepping
    assert last.productive <= last.stepping < last.written - last.started
    assert Path(last.checkpoint["location"]).exists()


def test_a_mistake_in_the_job_is_the_reason_of_the_failure(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "state"
    run = launch(job | {"data": {"train": "nowhere"}}, 1, TRAINWAY_STATE=str(file))
    run.process.communicate(timeout=1800)
    failed = state_of(file)
    assert failed is not None and (failed.state, failed.exit_status, failed.attempt) == ("failed", 2, 1)
    assert failed.reason is not None and "there are no token shards here" in failed.reason


def test_a_state_that_cannot_be_written_is_told_once(launch: Any, job: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    run = launch(job, 1, TRAINWAY_STATE=str(tmp_path / "file/state"), TRAINWAY_STATE_SECONDS="0.05")
    assert run.finish().count("the state of the run cannot be written") == 1


def test_the_state_names_stragglers_as_long_as_there_are_any(tmp_path: Path) -> None:
    from training.observe.run_state import StateWriter

    for stragglers, reason, expected in (
        ([{"rank": 3}], "rank 3 is slow", "rank 3 is slow"),
        ([], "no rank is slower than the others any more", None),
    ):
        writer = StateWriter(str(tmp_path / "state"))
        writer.take("stragglers", {"step": 100, "stragglers": stragglers, "reason": reason})
        writer.close("stopped")
        state = state_of(tmp_path / "state")
        assert state is not None and state.stragglers == expected


def test_a_loss_that_is_no_number_leaves_a_state_that_is_json(tmp_path: Path) -> None:
    from training.observe.run_state import StateWriter

    writer = StateWriter(str(tmp_path / "state"))
    writer.take("start", {"steps": 9})
    writer.take("step", {"step": 1, "loss": float("nan"), "step_seconds": 0.5})
    writer.close("succeeded")
    text = (tmp_path / "state").read_text()
    assert "NaN" not in text and json.loads(text)["step"] == 1


def writer_of(file: Path, attempt: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the writer of an attempt, whose ranks meet at a port of its own."""
    from training.observe.run_state import StateWriter

    monkeypatch.setenv("MASTER_PORT", attempt)
    return StateWriter(str(file))


def test_ranks_that_fail_together_are_one_attempt_with_the_reason_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.observe.run_state import write_failure

    file = tmp_path / "state"
    monkeypatch.setenv("TRAINWAY_STATE", str(file))
    monkeypatch.setenv("MASTER_PORT", "29501")
    for reason in ("the first", "another"):
        write_failure(reason, 1, started=5.0)
    # Rank 0 learns of it only when it writes.
    first = writer_of(file, "29501", monkeypatch)
    first.take("start", {"steps": 9, "startup_seconds": 2.0})
    first.close("stopped")
    state = state_of(file)
    assert state is not None and (state.attempt, state.state, state.reason) == (1, "failed", "the first")
    assert state.stepping == state.productive == 0

    # The second attempt is lost, and the third fails before its first step.
    second = writer_of(file, "29502", monkeypatch)
    step = {"loss": 1.0, "step_seconds": 4.0, "breakdown": {"data_wait": 0.5, "checkpoint": 1.0}, "skipped": False}
    for number in (6, 7):
        second.take("step", step | {"step": number, "skipped": number == 7})
    second.close("running")
    monkeypatch.setenv("MASTER_PORT", "29503")
    write_failure("the third", 3, started=20.0)
    state = state_of(file)
    assert state is not None and (state.attempt, state.started, state.exit_status) == (3, 20.0, 3)
    lost = state.earlier[1]
    assert [(each.attempt, each.state) for each in state.earlier] == [(1, "failed"), (2, "running")]
    assert (lost.first_step, lost.step, lost.stepping, lost.productive) == (6, 7, 8.0, 2.5)
