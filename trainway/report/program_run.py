"""The run of a program that is not Trainway's training job: its attempts, its numbers, and its outputs."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from trainway.report.errors import RunUnreadable

Ending = Literal["running", "succeeded", "stopped", "failed"]
MOST_FILES = 10
_NO_METRICS = ("event", "time", "step")


class NodeRecord(BaseModel):
    """How a node of an attempt began and ended. Times are in seconds since 1970."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    attempt: int
    node_rank: int
    outcome: Ending
    reason: str = ""
    time: float
    started: float | None = None


class Number(NamedTuple):
    """A value that the program reported, with its step, or its position if the program reports no steps."""

    step: int
    value: float
    time: float


@dataclass(frozen=True)
class ProgramAttempt:
    """One start of the program on all of its nodes."""

    number: int
    nodes: tuple[NodeRecord, ...]

    @property
    def outcome(self) -> Ending:
        """Return failed or running if that is so of a node, or else stopped if a node was, or else succeeded."""
        found = {node.outcome for node in self.nodes}
        order: tuple[Ending, ...] = ("failed", "running", "stopped", "succeeded")
        return next(each for each in order if each in found)

    @property
    def reason(self) -> str:
        """Return why the first node that failed did so, or how a node stopped."""
        told = sorted((node for node in self.nodes if node.outcome == self.outcome), key=lambda node: node.time)
        return next((node.reason for node in told if node.reason), "")

    @property
    def started(self) -> float:
        """Return when the first node started."""
        return min(node.started or node.time for node in self.nodes)

    @property
    def seconds(self) -> float:
        """Return the seconds from the first start of a node to the last end."""
        # The clocks of two nodes can differ.
        return max(0.0, max(node.time for node in self.nodes) - self.started)


@dataclass(frozen=True)
class OutputFile:
    """A file below the outputs: its path there, and its bytes."""

    path: str
    size: int


@dataclass(frozen=True)
class ProgramRun:
    """A run with its attempts and numbers. `outputs` are the largest files on this machine, of `output_count`."""

    name: str
    attempts: tuple[ProgramAttempt, ...]
    numbers: dict[str, tuple[Number, ...]]
    outputs: tuple[OutputFile, ...]
    output_count: int
    output_bytes: int

    @property
    def last_step(self) -> int | None:
        """Return the last step of which there is a number, or None."""
        return max((each.step for found in self.numbers.values() for each in found), default=None)

    @property
    def step_seconds(self) -> float | None:
        """Return the median of the seconds between two steps, or None. Steps that are left out count."""
        times = {each.step: each.time for found in self.numbers.values() for each in found}
        steps = sorted(times)
        spent = [
            (times[after] - times[before]) / (after - before)
            for before, after in pairwise(steps)
            if times[after] > times[before]
        ]
        return median(spent) if spent else None


def is_program_run(run: Path) -> bool:
    """Return whether a run is that of a program with a starter (trainway/launch/node/start_program.py)."""
    return any((run / "attempts").glob("*/node-*.json"))


def read_program_run(run: Path) -> ProgramRun:
    """Return a run by the files of its directory. A later attempt's number of a step takes the place of an earlier's.

    Raises:
        RunUnreadable: a file is damaged.
    """
    records = [_record(file) for file in sorted((run / "attempts").glob("*/node-*.json"))]
    nodes: dict[int, list[NodeRecord]] = defaultdict(list)
    for record in records:
        nodes[record.attempt].append(record)
    files = sorted(
        (OutputFile(str(file.relative_to(run / "outputs")), file.stat().st_size) for file in _files(run / "outputs")),
        key=lambda file: (-file.size, file.path),
    )
    return ProgramRun(
        name=_name(run),
        attempts=tuple(ProgramAttempt(number, tuple(nodes[number])) for number in sorted(nodes)),
        numbers=_numbers(run / "metrics.jsonl"),
        outputs=tuple(files[:MOST_FILES]),
        output_count=len(files),
        output_bytes=sum(file.size for file in files),
    )


def _record(file: Path) -> NodeRecord:
    try:
        return NodeRecord.model_validate_json(file.read_bytes())
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        fix = "delete the file to have a report without that node"
        raise RunUnreadable(file, "this file is damaged", reason, fix) from error


def _numbers(file: Path) -> dict[str, tuple[Number, ...]]:
    found: dict[str, dict[int, Number]] = defaultdict(dict)
    lines = file.read_text(encoding="utf-8", errors="replace").splitlines() if file.is_file() else []
    for position, line in enumerate(lines, start=1):
        try:
            event = json.loads(line)
        except ValueError:
            continue  # the last line of a node that was lost
        if not isinstance(event, dict) or event.get("event") != "metrics":
            continue
        step = int(event.get("step", position))
        for name, value in event.items():
            if name not in _NO_METRICS and isinstance(value, int | float):
                found[name][step] = Number(step, float(value), float(event["time"]))
    return {name: tuple(number for _, number in sorted(each.items())) for name, each in _loss_first(found).items()}


def _loss_first(found: dict[str, dict[int, Number]]) -> dict[str, dict[int, Number]]:
    return dict(sorted(found.items(), key=lambda item: (item[0] != "loss", "loss" not in item[0].lower(), item[0])))


def _files(directory: Path) -> list[Path]:
    return [file for file in directory.rglob("*") if file.is_file() and not file.is_symlink()]


def _name(run: Path) -> str:
    try:
        document = yaml.safe_load((run / "job.yaml").read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError):
        return run.name
    return str(document.get("name", run.name)) if isinstance(document, dict) else run.name


def finite(numbers: Sequence[Number]) -> list[Number]:
    """Return the numbers that are neither infinite nor NaN."""
    return [number for number in numbers if math.isfinite(number.value)]
