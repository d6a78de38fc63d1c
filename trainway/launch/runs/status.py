"""The table of `trainway status`: the states of runs on all targets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from trainway.launch.runs.run_directory import read_launch
from trainway.launch.target.known import target_named
from trainway.spec.errors import UsageError

_ANY_WIDTH = 100_000


class Row(NamedTuple):
    """A run in the table; `step` is None where its metrics are not on this machine."""

    run: str
    target: str
    phase: str
    step: str | None
    nodes: tuple[str, ...]
    started: str
    reason: str
    owner: str | None = None
    """Who launched the run; None for a run of this machine alone."""
    team: str | None = None
    attempts: int = 1


def status_of(run: Path) -> Row:
    """Return the row of a run of this machine."""
    return status_of_launch(run.name, read_launch(run), run)


def status_of_launch(name: str, record: Mapping[str, Any], run: Path) -> Row:
    """Return the row of a run by the content of its launch.json. `run` may hold its metrics.

    The row of a target that does not answer says so, and the others are still shown.
    """
    recorded = record.get("registry", {})
    try:
        state = target_named(record["target"]).state(record["handle"])
        phase, nodes, reason = state.phase.value, state.nodes, state.reason
    except UsageError as error:
        phase, nodes, reason = "unknown", (), str(error).replace("\n    ", "; ")
    who = (recorded.get("owner"), recorded.get("team"), recorded.get("attempts", 1))
    return Row(name, record["target"], phase, _step(run), nodes, record["started"], reason, *who)


def status_table(rows: Sequence[Row]) -> None:
    """Print the rows as a table. A name is never cut, because the next command needs it.

    In a terminal, other columns wrap. Elsewhere, as in a pipe, each row is one line.
    """
    from rich.console import Console
    from rich.measure import Measurement
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("run", no_wrap=True, min_width=max((len(row.run) for row in rows), default=0))
    shows_owners = any(row.owner for row in rows)
    owners = ("owner", "team") if shows_owners else ()
    for name in (*owners, "target", "phase", "step", "nodes", "started", "reason"):
        table.add_column(name, overflow="fold")
    for row in rows:
        nodes = ", ".join(row.nodes) if len(row.nodes) <= 2 else f"{len(row.nodes)} nodes"
        whose = (row.owner or "", row.team or "") if shows_owners else ()
        table.add_row(row.run, *whose, row.target, row.phase, row.step or "", nodes, row.started, row.reason)
    # A reason is text, though it may have brackets.
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).maximum
    console.print(table)


def _step(run: Path) -> str | None:
    """Return `done/all` by the newest line of the run's metrics, or `done` if the number of steps is not known."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        return None
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    # The training job writes `step`, and the starter of any other program `metrics`.
    counted = (event for event in reversed(events) if event["event"] in ("step", "metrics"))
    done = next((event["step"] for event in counted if "step" in event), 0)
    if all(event["event"] == "metrics" for event in events):
        return str(done)
    steps = next((event["steps"] for event in reversed(events) if event["event"] == "start"), "?")
    return f"{done}/{steps}"
