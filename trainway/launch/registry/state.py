"""What a run itself writes into the registry while it runs: its state, beside the record that the launch has written.

Two objects, because each then has one writer: the launch writes `RUN.json`, and the first node of the run `RUN.state`.
The training job writes it in training/observe/run_state.py, and the starter of any other program in
trainway/launch/node/run_state.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from trainway.launch.registry.record import prefix_of

VERSION = 1
VARIABLE = "TRAINWAY_STATE"
"""The environment variable that has the location of the state."""
OLD_SECONDS = 180
"""A run that has written nothing for so long does not run, or cannot reach the bucket."""


@dataclass(frozen=True)
class RunState:
    """The state of a run as its first node wrote it last. None stands for what the run does not know.

    `state` is `running`, `succeeded`, `stopped`, or `failed`. `attempt` counts the starts of the program. `started`,
    `stepped`, and `written` are times in seconds since the epoch: of the start of this attempt, of its last step, and
    of the state. `checkpoint` has the `step`, the `location`, and the `time` of the newest complete checkpoint. Its key
    `every` is the number of steps to the next checkpoint.
    `step_seconds` is the time of a step in seconds, from the last ones. `nodes` has the name of each node, and the ID
    of its instance behind a space.
    """

    state: str
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
    nodes: tuple[str, ...] = ()

    @property
    def seconds_left(self) -> float | None:
        """The time in seconds that the remaining steps take at the pace of the last ones, or None if unknown."""
        if self.state != "running" or self.step is None or self.steps is None or self.step_seconds is None:
            return None
        return max(0, self.steps - self.step) * self.step_seconds


def state_key_of(team: str | None, run: str) -> str:
    """Return the key of a run's state in the bucket."""
    return f"{prefix_of(team)}{run}.state"


def parse_state(text: str) -> RunState:
    """Return the state in a text. Raises ValueError for a text that is no state of this version's schema."""
    stated = json.loads(text)
    if not isinstance(stated, dict) or stated.pop("schema_version", None) != VERSION:
        raise ValueError("it is no state of a run that this version of Trainway can read")
    known = {field.name for field in fields(RunState)} - {"nodes"}
    nodes = tuple(stated.get("nodes", ()))
    try:
        return RunState(**{name: value for name, value in stated.items() if name in known}, nodes=nodes)
    except TypeError as error:
        raise ValueError(str(error)) from None
