"""Read metrics.jsonl, the training job's output, as typed events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from trainway.report.errors import RunUnreadable

PHASES = ("data_wait", "forward", "backward", "optimizer", "checkpoint", "other")


class _Model(BaseModel):
    # A newer job may write keys that this reader does not know. The report ignores them.
    model_config = ConfigDict(frozen=True, extra="ignore")


class Start(_Model):
    """The start of a process group. Every attempt writes it once. `time` is in seconds since 1970."""

    event: Literal["start"]
    time: float
    job: str
    model: str
    parameters: int
    world_size: int
    device: str
    precision: str
    steps: int
    resumed_from: int | None
    tokens_per_step: int
    flop_per_token: float
    torch: str
    # Seconds from the start of the process to this event, and those of them in which it loaded a checkpoint. An older
    # job wrote neither.
    startup_seconds: float = 0.0
    load_seconds: float = 0.0


class Breakdown(_Model):
    """The seconds of one step by phase."""

    data_wait: float
    forward: float
    backward: float
    optimizer: float
    checkpoint: float
    other: float


class Step(_Model):
    """One optimizer step. `tokens` counts from the beginning of the job. `mfu` is a fraction, or None if not known."""

    event: Literal["step"]
    time: float
    step: int
    loss: float
    loss_hex: str
    grad_norm: float
    learning_rate: float
    tokens: int
    step_seconds: float
    tokens_per_second: float
    mfu: float | None
    skipped: bool = False
    breakdown: Breakdown


class CheckpointWritten(_Model):
    """A complete checkpoint, and the seconds for which training waited for it."""

    event: Literal["checkpoint"]
    time: float
    step: int
    location: str
    seconds: float


class IntervalChosen(_Model):
    """An interval between checkpoints that the job has chosen, in steps and seconds, and the figures behind it.

    A save stops training for `stall_seconds` and is complete after `write_seconds`. `bound` says what decided: the
    formula for the optimum, the time of a write, or that an interval has at least one step.
    """

    event: Literal["checkpoint_interval"]
    time: float
    steps: int
    seconds: float
    stall_seconds: float
    write_seconds: float
    step_seconds: float
    nodes: int
    interruptions_per_1000_node_days: float
    bound: Literal["optimum", "write", "step"]


class EvaluationDone(_Model):
    """An evaluation on held-out samples, and its seconds."""

    event: Literal["evaluation"]
    time: float
    step: int
    loss: float
    seconds: float


class Hang(_Model):
    """The end of an attempt by its watchdog, and the seconds that the work had taken."""

    event: Literal["hang"]
    time: float
    seconds: float


class End(_Model):
    """An orderly end of the process group, at the job's last step or at the step where it was told to stop."""

    event: Literal["end"]
    time: float
    step: int
    loss: float
    loss_hex: str
    seconds: float


RunEvent = Start | Step | CheckpointWritten | IntervalChosen | EvaluationDone | Hang | End
_EVENT: TypeAdapter[RunEvent] = TypeAdapter(Annotated[RunEvent, Field(discriminator="event")])
_KNOWN = ("start", "step", "checkpoint", "checkpoint_interval", "evaluation", "hang", "end")


def read_events(run: Path) -> list[RunEvent]:
    """Return the events of a run in the order in which they were written. The first is a Start.

    An incomplete last line, which a killed run leaves, is ignored. So are kinds of event that this version does not
    know. NaN and Infinity are read as Python writes them.

    Raises:
        RunUnreadable: there is no metrics.jsonl, a line of it is damaged, or it has no start event.
    """
    path = run / "metrics.jsonl"
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _missing(run, path, error) from error
    *whole, last = content.split(b"\n")
    events = [event for number, line in enumerate(whole, start=1) if (event := _read_line(path, number, line))]
    if last and _is_json(last) and (event := _read_line(path, len(whole) + 1, last)):
        events.append(event)
    if not events or not isinstance(events[0], Start):
        raise RunUnreadable(
            path,
            "no start event at its beginning",
            "rank 0 writes one before the first step, so the job failed before that or the file lost its first lines",
            f"read the logs of the ranks in {run / 'logs'}",
        )
    return events


def _read_line(path: Path, number: int, line: bytes) -> RunEvent | None:
    if not line.strip():
        return None
    try:
        value: Any = json.loads(line)
        if not isinstance(value, dict):
            raise ValueError("it is not a JSON object")
        if value.get("event") not in _KNOWN and isinstance(value.get("event"), str):
            return None
        return _EVENT.validate_python(value)
    except ValueError as error:  # JSON, UTF-8, and pydantic all raise ValueErrors
        raise RunUnreadable(
            path,
            "this line is not an event",
            _first_reason(error),
            "repair the line or delete it, and write the report again",
            number,
        ) from error


def _first_reason(error: ValueError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        return f"{key}: {first['msg']}" if key else first["msg"]
    return str(error)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _missing(run: Path, path: Path, error: OSError) -> RunUnreadable:
    if not run.is_dir():
        return RunUnreadable(
            run, "not a run directory", error.strerror or str(error), "give the directory of a run, such as runs/tiny"
        )
    return RunUnreadable(
        path,
        "the run's metrics cannot be read",
        f"{error.strerror or error}; rank 0 writes this file when training starts",
        f"give the directory of a run; if this is one, {run / 'logs'} shows why the job did not start",
    )
