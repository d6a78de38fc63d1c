"""Records and states of runs, as a launch and a job write them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from tests.launch.registry.launches import KUBERNETES, of_run
from trainway.launch.registry.record import RunRecord
from trainway.launch.registry.state import parse_state
from trainway.launch.registry.store import RecordedRun

PRICE = KUBERNETES["nodes"]["price"]


def at(text: str) -> float:
    """Return a time of UTC in seconds since the epoch, for example `2024-02-29 12:00`."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


def record(run: str, launched: float, *, count: int = 2, team: str | None = "research", **nodes: Any) -> RunRecord:
    """A run on `count` nodes with 8 GPUs each, which was launched once."""
    launch = of_run(KUBERNETES, run)
    launch |= {"started": moment(launched), "first_started": moment(launched)}
    launch["nodes"] = launch["nodes"] | {"count": count} | nodes
    return RunRecord(run, team, "ada", moment(launched), {"job.yaml": f"name: {run}\n"}, launch)


def attempt(number: int, began: float, ended: float, how: str = "succeeded", **more: Any) -> dict[str, Any]:
    return {"attempt": number, "state": how, "started": began, "written": ended} | more


def state(*attempts: dict[str, Any]) -> str:
    """The text of the state that the last of the attempts has written."""
    return json.dumps({"schema_version": 1, **attempts[-1], "earlier": attempts[:-1]})


def recorded(of: RunRecord, *attempts: dict[str, Any], changed: float | None = None) -> RecordedRun:
    """A run as the registry returns it. S3 has the state from the moment at which it was written."""
    found = parse_state(state(*attempts)) if attempts else None
    last = attempts[-1]["written"] if attempts else at("2024-02-01")
    return RecordedRun(of, found, datetime.fromtimestamp(last if changed is None else changed, UTC))


def resumed(of: RunRecord, again: float) -> RunRecord:
    """A run that was launched again."""
    return replace(of, launch={**(of.launch or {}), "started": moment(again)}, attempts=2)
