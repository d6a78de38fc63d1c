"""`trainway status` gives the ranks that slow down a run as the reason, as long as the run runs."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainway.launch.runs import status
from trainway.launch.runs.status import status_of_launch
from trainway.launch.target.protocol import Phase, State

RECORD = {"target": "kubernetes", "handle": {}, "started": "2026-11-29T10:00:00+00:00"}
NAMED = "rank 11 (host node-1, local rank 3, NVIDIA H200) is slow since step 2251"


@pytest.mark.parametrize(
    ("state", "written", "reason"),
    [
        (State(Phase.RUNNING), {"stragglers": NAMED}, NAMED),
        (State(Phase.RUNNING, "borrows 2 nodes"), {"stragglers": NAMED}, f"borrows 2 nodes; {NAMED}"),
        (State(Phase.RUNNING), {"stragglers": None}, ""),
        (State(Phase.RUNNING), {}, ""),
        (State(Phase.FAILED, "exit status 1"), {"stragglers": NAMED}, "exit status 1"),
    ],
    ids=["named", "beside another reason", "none any more", "of another program", "failed since"],
)
def test_a_slow_rank_is_the_reason_of_a_run_that_runs(
    state: State, written: dict[str, Any], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(status, "target_named", lambda _: SimpleNamespace(state=lambda _: state))
    of_run = {"state": "running", "written": 1795946400.0} | written
    assert status_of_launch("first", RECORD, tmp_path, of_run).reason == reason
