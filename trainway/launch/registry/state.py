"""What a run itself writes into the registry while it runs: its state, beside the record that the launch has written.

Two objects, because each then has one writer: the launch writes `RUN.json`, and the first node of the run `RUN.state`.
The training job writes it in training/observe/run_state.py, and the starter of any other program in
trainway/launch/node/run_state.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from trainway.launch.registry.record import first_problem, prefix_of
from trainway.spec.shown import shown

VERSION = 1
VARIABLE = "TRAINWAY_STATE"
"""The environment variable that has the location of the state."""
Ending = Literal["running", "succeeded", "stopped", "failed"]
STATE = ".state"
"""How the key of a state ends."""
OLD_SECONDS = 180
"""A run that has written nothing for so long does not run, or cannot reach the bucket."""


@dataclass(frozen=True)
class AttemptState:
    """An attempt as its run wrote it last. Times are in seconds since the epoch, and None is unknown.

    `state` is that of the run; `running` stands for an earlier attempt that wrote no end. `stepping` is the time in
    steps in seconds, and `productive` the part of it that was no wait, and in no step that was skipped.
    """

    attempt: int
    state: Ending
    started: float
    written: float
    first_step: int | None = None
    step: int | None = None
    stepping: float | None = None
    productive: float | None = None
    reason: str | None = None
    exit_status: int | None = None


@dataclass(frozen=True)
class RunState:
    """The state of a run as its first node wrote it last. None stands for what the run does not know.

    `state` is `running`, `succeeded`, `stopped`, or `failed`. `attempt` counts the starts of the program. `started`,
    `stepped`, and `written` are times in seconds since the epoch: of the start of this attempt, of its last step, and
    of the state. `checkpoint` has the `step`, the `location`, and the `time` of the newest complete checkpoint. Its key
    `every` is the number of steps to the next checkpoint. `stragglers` names the ranks that slow down the others.
    `step_seconds` is the time of a step in seconds, from the last ones. `restarts` is the number of restarts that the
    job file allows. `nodes` has the name of each node, and the ID of its instance behind a space. AttemptState has the
    meaning of `first_step`, `stepping`, and `productive`. `earlier` has the newest attempts before this one, the oldest
    first.
    """

    state: Ending
    attempt: int
    started: float
    written: float
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    stepped: float | None = None
    step_seconds: float | None = None
    checkpoint: Mapping[str, Any] | None = None
    reason: str | None = None
    exit_status: int | None = None
    restarts: int | None = None
    nodes: tuple[str, ...] = ()
    stragglers: str | None = None
    first_step: int | None = None
    stepping: float | None = None
    productive: float | None = None
    earlier: tuple[AttemptState, ...] = ()

    @property
    def attempts(self) -> tuple[AttemptState, ...]:
        """The attempts that are known, the oldest first."""
        return (*self.earlier, AttemptState(**{each.name: getattr(self, each.name) for each in fields(AttemptState)}))

    @property
    def seconds_left(self) -> float | None:
        """The time in seconds that the remaining steps take at the pace of the last ones, or None if unknown."""
        if self.state != "running" or self.step is None or self.steps is None or self.step_seconds is None:
            return None
        return max(0, self.steps - self.step) * self.step_seconds


def state_key_of(team: str | None, run: str) -> str:
    """Return the key of a run's state in the bucket."""
    return f"{prefix_of(team)}{run}{STATE}"


_Shown = Annotated[str, AfterValidator(shown)]
# The most nodes of a run that somebody reads.
_MOST_NODES = 10_000
# The name of a host, and the ID of an instance of EC2.
_Node = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,252}( i-[0-9a-f]{8,17})?$")]
# Seconds since the epoch, until the year 9999. datetime has no later ones.
_Seconds = Annotated[float, Field(ge=0, lt=253_402_300_800)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]
# The image of a job can have a later version, which writes more keys.
_WRITTEN = ConfigDict(strict=True, extra="ignore", hide_input_in_errors=True)


class _Checkpoint(BaseModel):
    model_config = _WRITTEN
    step: _Count
    location: _Shown
    time: _Seconds
    every: _Count | None = None


class _Attempt(BaseModel):
    model_config = _WRITTEN
    attempt: _Count
    state: Ending
    started: _Seconds
    written: _Seconds
    first_step: _Count | None = None
    step: _Count | None = None
    stepping: _Seconds | None = None
    productive: _Seconds | None = None
    reason: _Shown | None = None
    exit_status: int | None = None


class _State(_Attempt):
    steps: _Count | None = None
    loss: float | None = None
    stepped: _Seconds | None = None
    step_seconds: _Seconds | None = None
    checkpoint: _Checkpoint | None = None
    restarts: _Count | None = None
    nodes: Annotated[list[_Node], Field(max_length=_MOST_NODES)] = []
    stragglers: _Shown | None = None
    # The writers keep 100.
    earlier: Annotated[list[_Attempt], Field(max_length=1000)] = []


def parse_state(text: str) -> RunState:
    """Return the state in a text. Raises ValueError for a text that is no state of this version's schema."""
    try:
        stated = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("it is not JSON") from None
    if not isinstance(stated, dict) or stated.pop("schema_version", None) != VERSION:
        raise ValueError("it is no state of a run that this version of Trainway can read")
    try:
        found = _State.model_validate(stated).model_dump()
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None
    if found["checkpoint"] is not None and found["checkpoint"]["every"] is None:
        del found["checkpoint"]["every"]
    earlier = tuple(AttemptState(**each) for each in found["earlier"])
    return RunState(**found | {"nodes": tuple(found["nodes"]), "earlier": earlier})
