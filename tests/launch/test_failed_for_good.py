"""`trainway status` says that a program failed for good, also while an operator starts its pods again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND
from trainway.launch.runs import status
from trainway.launch.runs.status import status_of_launch
from trainway.launch.target.protocol import Phase, State

LAUNCHED = datetime(2026, 11, 24, 10, tzinfo=UTC)
WHY = "torchrunx: there is no such command on PATH"
RECORD = {"target": "kubernetes", "handle": {}, "started": LAUNCHED.isoformat()}


def written(exit_status: int = NOT_FOUND, minutes: int = 1, state: str = "failed") -> dict[str, Any]:
    moment = (LAUNCHED + timedelta(minutes=minutes)).timestamp()
    return {"state": state, "exit_status": exit_status, "reason": WHY, "written": moment}


@pytest.fixture(autouse=True)
def target(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the target says of the run: its operator starts the pods again and again."""
    starting = State(Phase.STARTING, "CrashLoopBackOff: back-off 5m0s", ("n1", "n2"))
    found = SimpleNamespace(state=lambda _: starting)
    monkeypatch.setattr(status, "target_named", lambda _: found)
    return found


@pytest.mark.parametrize("exit_status", [NOT_EXECUTABLE, NOT_FOUND])
def test_pods_that_start_again_are_told_with_the_command_that_frees_their_nodes(
    exit_status: int, tmp_path: Path
) -> None:
    row = status_of_launch("first", RECORD, tmp_path, written(exit_status))
    assert row.phase == "starting" and row.nodes == ("n1", "n2")
    assert row.reason == f"{WHY}. The program does not run again: `trainway stop` frees the nodes"


def test_a_ray_job_that_stopped_itself_has_failed(target: SimpleNamespace, tmp_path: Path) -> None:
    target.state = lambda _: State(Phase.STOPPED, "somebody stopped the job in Ray")
    row = status_of_launch("first", RECORD, tmp_path, written())
    assert (row.phase, row.reason) == ("failed", WHY)
    assert status_of_launch("first", RECORD, tmp_path, {}).phase == "stopped"


@pytest.mark.parametrize(
    "said",
    [written(exit_status=1), written(state="running"), written(minutes=-5), {}],
    ids=["may help", "runs", "old", ""],
)
def test_a_run_that_may_run_again_is_as_its_target_says(said: dict[str, Any], tmp_path: Path) -> None:
    row = status_of_launch("first", RECORD, tmp_path, said)
    assert (row.phase, row.reason) == ("starting", "CrashLoopBackOff: back-off 5m0s")
