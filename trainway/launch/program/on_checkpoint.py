"""The evaluation that belongs to a program, and the checkpoint that an evaluation evaluates."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

STEP = "{step}"
"""Placeholder for the number of the step in the location of a marker."""


@dataclass(frozen=True)
class OnCheckpoint:
    """The job that evaluates the checkpoints of a program.

    `text` is that of its job file, whose paths are relative to `directory`. `marker` is the location of the file that
    completes a checkpoint, with STEP in it. It is a location, or relative to the outputs of the run. Checkpoints at
    multiples of `every` steps are evaluated, `at_most` at once, on the node group `group`.
    """

    text: str
    directory: Path
    marker: str
    every: int = 1
    at_most: int = 1
    group: str | None = None


@dataclass(frozen=True)
class EvaluatedCheckpoint:
    """The checkpoint that a run evaluates: the name of the run that saved it, its step, and its location."""

    run: str
    step: int
    checkpoint: str
