"""The table of `trainway status`: the states of runs on all targets."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainway.launch.node.exit_statuses import NOT_EXECUTABLE, NOT_FOUND
from trainway.launch.node.metrics_in_output import PROGRESS
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.target.known import target_named
from trainway.launch.target.protocol import OVER, Phase
from trainway.spec.errors import UsageError

if TYPE_CHECKING:
    from rich.table import Table

_ANY_WIDTH = 100_000
# How a run itself says that it has ended.
_ENDS = (Phase.SUCCEEDED.value, Phase.STOPPED.value, Phase.FAILED.value)


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
    """How often the run was launched."""
    starts: int | None = None
    """How often its program was started, also after failures; None if the run has not written that."""
    loss: float | None = None
    seconds_left: float | None = None
    """Time in seconds that the remaining steps take at the pace of the last ones."""
    checkpoint: Mapping[str, Any] | None = None
    """The `step`, the `location`, and the `time` of the newest complete checkpoint, in seconds since the epoch.

    `every` is the number of steps to the next one, if the run has written it.
    """
    written: float | None = None
    """When the run wrote these numbers, in seconds since the epoch."""
    tokens_per_second: float | None = None
    """Tokens per second of the newest step; None if its metrics are not on this machine."""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    """The evaluations of the checkpoints, each with `step`, `run`, `phase`, `reason`, and `numbers`."""


def how_it_ended(phase: Phase, written: Mapping[str, Any] | None) -> Phase | None:
    """Return how a run ended that is in a phase, or None if it has not.

    `written` is the state that the run has written where its platform is. It says how a run ended that its target does
    not know any more. GONE stands for a run of which nobody says it: its target has forgotten it, or hides it.
    """
    if phase is Phase.GONE and written and written["state"] in _ENDS:
        return Phase(written["state"])
    return phase if phase in OVER else None


def unreadable_row(name: str, why: str) -> Row:
    """Return the row of an unreadable record."""
    return Row(name, "-", "unreadable record", None, (), "", why)


def status_of(run: Path, written: Mapping[str, Any] | None = None) -> Row:
    """Return the row of a run of this machine."""
    return status_of_launch(run.name, read_launch(run), run, written)


def status_of_launch(name: str, record: Mapping[str, Any], run: Path, written: Mapping[str, Any] | None = None) -> Row:
    """Return the row of a run by the content of its launch.json. `run` may hold its metrics.

    `written` is the state that the run has written where its platform is. It also says how a run ended that its target
    does not know any more. The row of a target that does not answer says so, and the others are still shown.
    """
    recorded, written = record.get("registry", {}), written or {}
    try:
        state = target_named(record["target"]).state(record["handle"])
        phase, nodes, reason = state.phase.value, state.nodes, state.reason
    except UsageError as error:
        phase, nodes, reason = "unknown", (), str(error).replace("\n    ", "; ")
    if phase in (Phase.GONE.value, "unknown") and written.get("state") in _ENDS:
        phase, reason = written["state"], written.get("reason") or "the run has written so at its end"
    elif _failed_for_good(record, written):
        phase, reason = _after_failure(phase, reason, str(written.get("reason") or "the program failed for good"))
    elif phase == Phase.GONE.value and written:
        moment = datetime.fromtimestamp(written["written"], UTC).isoformat(timespec="seconds")
        reason = f"{reason}; the run wrote last at {moment}" if reason else f"the run wrote last at {moment}"
    elif phase == Phase.RUNNING.value and written.get("stragglers"):
        reason = f"{reason}; {written['stragglers']}" if reason else written["stragglers"]
    is_over = phase in {each.value for each in OVER}
    who = (recorded.get("owner"), recorded.get("team"), recorded.get("attempts", 1))
    events = _events(run)
    progress = _progress_of_bar(run)
    return Row(
        *(
            name,
            record["target"],
            phase,
            _step(events) or written_step(written) or written_step(progress),
            nodes,
            record["started"],
            reason,
            *who,
        ),
        starts=written.get("attempt"),
        loss=written.get("loss", progress.get("loss")),
        seconds_left=None if is_over else written.get("seconds_left"),
        checkpoint=written.get("checkpoint"),
        written=written.get("written"),
        tokens_per_second=None if is_over else _tokens_per_second(events),
    )


def _failed_for_good(record: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    """Return whether the program of this launch has failed so that it does not run again."""
    if written.get("state") != Phase.FAILED.value or written.get("exit_status") not in (NOT_EXECUTABLE, NOT_FOUND):
        return False
    # `trainway resume` launches the run again, and what the run has written is older until its program starts.
    return float(written["written"]) >= datetime.fromisoformat(record["started"]).astimezone().timestamp()


def _after_failure(phase: str, reason: str, failure: str) -> tuple[str, str]:
    """Return the phase and the reason of a run whose program failed for good, by those that its target has.

    The operators of some kinds of jobs on Kubernetes start the pods again, although the program does not start.
    """
    if phase == Phase.STOPPED.value:
        return Phase.FAILED.value, failure
    if phase in {each.value for each in OVER}:
        return phase, reason
    return phase, f"{failure}. The program does not run again: `trainway stop` frees the nodes"


def status_table(rows: Sequence[Row]) -> None:
    """Print the rows as a table. A name is never cut, because the next command needs it.

    In a terminal, other columns wrap. Elsewhere, as in a pipe, each row is one line.
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("run", no_wrap=True, min_width=max((len(row.run) for row in rows), default=0))
    shows_owners = any(row.owner for row in rows)
    owners = ("owner", "team") if shows_owners else ()
    for name in (*owners, "target", "phase", "step", "left", "age", "nodes", "reason"):
        table.add_column(name, overflow="fold")
    for row in rows:
        nodes = ", ".join(row.nodes) if len(row.nodes) <= 2 else f"{len(row.nodes)} nodes"
        whose = (row.owner or "", row.team or "") if shows_owners else ()
        times = (duration(row.seconds_left), duration(age(row.started) if row.started else None))
        table.add_row(row.run, *whose, row.target, row.phase, row.step or "", *times, nodes, row.reason)
    print_table(table)


def print_table(table: Table) -> None:
    """Print a table of rich. In a terminal, its columns wrap. Elsewhere, as in a pipe, each row is one line."""
    from rich.console import Console
    from rich.measure import Measurement

    # A reason is text, though it may have brackets.
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = Measurement.get(console, console.options.update(max_width=_ANY_WIDTH), table).maximum
    console.print(table)


def duration(seconds: float | None) -> str:
    """Return a time in its two largest units, for example `3d4h`, `2h05m`, or `40s`. Empty for None."""
    if seconds is None:
        return ""
    minutes, hours, days = seconds / 60, seconds / 3600, seconds / 86400
    if days >= 1:
        return f"{int(days)}d{int(hours % 24)}h"
    if hours >= 1:
        return f"{int(hours)}h{int(minutes % 60):02d}m"
    return f"{int(minutes)}m" if minutes >= 1 else f"{max(0, int(seconds))}s"


def age(started: str) -> float:
    """Return the time in seconds since the start of a run."""
    moment = datetime.fromisoformat(started)
    return (datetime.now(UTC) - (moment if moment.tzinfo else moment.astimezone())).total_seconds()


def written_step(written: Mapping[str, Any]) -> str | None:
    """Return `done/all`, or `done` if the number of steps is not known."""
    if written.get("step") is None:
        return None
    return f"{written['step']}/{written['steps']}" if written.get("steps") else str(written["step"])


def _events(run: Path) -> list[dict[str, Any]] | None:
    """Return the events of the run's metrics, oldest first; None if its metrics are not on this machine."""
    path = run / "metrics.jsonl"
    if not path.is_file():
        return None
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]


def _progress_of_bar(run: Path) -> dict[str, float]:
    """Return the numbers of the progress bar that the starter has read. Empty if there are none that can be read."""
    try:
        said = json.loads((run / PROGRESS).read_text(encoding="utf-8"))
        return {name: said[name] for name in ("step", "steps", "loss") if isinstance(said.get(name), int | float)}
    except (OSError, ValueError, AttributeError):
        return {}


def _step(events: Sequence[Mapping[str, Any]] | None) -> str | None:
    """Return `done/all` by the newest line of the run's metrics, or `done` if the number of steps is not known."""
    if events is None:
        return None
    # The training job writes `step`, and the starter of any other program `metrics`.
    counted = (event for event in reversed(events) if event["event"] in ("step", "metrics"))
    done = next((event["step"] for event in counted if "step" in event), 0)
    if all(event["event"] == "metrics" for event in events):
        return str(done)
    steps = next((event["steps"] for event in reversed(events) if event["event"] == "start"), "?")
    return f"{done}/{steps}"


def _tokens_per_second(events: Sequence[Mapping[str, Any]] | None) -> float | None:
    return next((each.get("tokens_per_second") for each in reversed(events or ()) if each["event"] == "step"), None)
