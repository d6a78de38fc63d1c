"""The evaluations of the checkpoints of a run, and their states."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainway.launch.program.program import EVALUATION_JOB
from trainway.launch.registry.find import launch_of, registry_in, written_state
from trainway.launch.registry.store import Registry
from trainway.launch.runs.names import prefix_of_evaluations
from trainway.launch.runs.run_directory import RUNS, read_launch
from trainway.launch.runs.status import how_it_ended
from trainway.launch.target.known import target_named
from trainway.launch.target.protocol import OVER, Phase
from trainway.spec.errors import UsageError

_NO_NUMBERS = ("event", "time", "step")


@dataclass(frozen=True)
class Evaluated:
    """An evaluation of a checkpoint: the step, the name of its run, its phase, and why it is in that phase.

    `numbers` are the newest values of its metrics. `is_submitted` is False while its launch has not ended, or if that
    was killed.
    """

    step: int
    run: str
    phase: Phase
    reason: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)
    is_submitted: bool = True

    @property
    def is_over(self) -> bool:
        """Return whether the evaluation has ended."""
        return self.phase in OVER

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation for JSON."""
        known = {"step": self.step, "run": self.run, "phase": self.phase.value, "reason": self.reason}
        return {**known, "numbers": dict(self.numbers)}


def run_of_evaluation(run: Path, step: int, *, is_here: bool) -> str:
    """Return the name of the run that evaluates a checkpoint, or its directory if it is on this machine."""
    return f"{run}-step-{step}" if is_here else f"{prefix_of_evaluations(run.name)}{step}"


def evaluations_of(
    run: Path, launch: Mapping[str, Any], known: Mapping[int, Evaluated] | None = None
) -> list[Evaluated]:
    """Return the evaluations of a run, by step. `run` is the directory of its record, and `launch` its launch.json.

    Those of `known` that are over are not asked for again. Raises UsageError if a target or the registry does not
    answer.
    """
    registry, known = registry_in(dict(launch)), known or {}
    found = _here(run) if registry is None else _recorded(run, launch, registry)
    evaluated = []
    for step, name, record in found:
        before = known.get(step)
        evaluated.append(before if before is not None and before.is_over else _look(step, name, record, run))
    return sorted(evaluated, key=lambda each: each.step)


def known_evaluations(run: Path, launch: Mapping[str, Any]) -> list[Evaluated]:
    """Return the evaluations of a run, or nothing if there are none or they cannot be read."""
    if not (run / EVALUATION_JOB).is_file():
        return []
    try:
        return evaluations_of(run, launch)
    except UsageError as error:
        print(f"warning: {' '.join(str(error).split())}", file=sys.stderr)
        return []


def keep_evaluations(run: Path, launch: Mapping[str, Any]) -> None:
    """Write the evaluations of a run beside its metrics, where `trainway report` reads them."""
    if evaluations := known_evaluations(run, launch):
        text = json.dumps([each.as_json() for each in evaluations], indent=2)
        (run / "evaluations.json").write_text(text + "\n", encoding="utf-8")


def _here(run: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    for directory in run.parent.glob(f"{run.name}-step-*"):
        if (directory / "launch.json").is_file():
            record = read_launch(directory)
            told = record["options"].get("evaluation")
            if told and told["run"] == run.name:
                yield told["step"], str(directory), record


def _recorded(
    run: Path, launch: Mapping[str, Any], registry: Registry
) -> Iterator[tuple[int, str, dict[str, Any] | None]]:
    prefix = prefix_of_evaluations(run.name)
    # An evaluation can be of another team than the run.
    teams = dict.fromkeys((launch["registry"]["team"], launch["options"].get("evaluation_team")))
    for team in teams:
        for record in registry.named(team, prefix):
            step = record.run.removeprefix(prefix)
            if step.isdigit():
                yield int(step), record.run, launch_of(record, registry) if record.launch else None


def _look(step: int, name: str, record: dict[str, Any] | None, run: Path) -> Evaluated:
    if record is None:
        return Evaluated(step, name, Phase.STARTING, "it is being submitted", is_submitted=False)
    state = target_named(record["target"]).state(record["handle"])
    written = written_state(record, name)
    phase = how_it_ended(state.phase, written) or state.phase
    told = {"loss": written["loss"]} if written and written["loss"] is not None else {}
    found = Evaluated(step, name, phase, state.reason or str((written or {}).get("reason") or ""), told)
    directory = run.parent / Path(name).name if record.get("registry") is None else RUNS / name
    numbers = _numbers(directory / "metrics.jsonl")
    return replace(found, numbers={**told, **numbers})


def _numbers(file: Path) -> dict[str, float]:
    """Return the newest value of each metric of a run, or nothing if its metrics are not on this machine."""
    found: dict[str, float] = {}
    if not file.is_file():
        return found
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue  # a node was lost while it wrote this line
        if event.get("event") == "evaluation":
            found["evaluation_loss"] = float(event["loss"])
        elif event.get("event") == "metrics":
            numbers = {name: value for name, value in event.items() if name not in _NO_NUMBERS}
            found |= {name: float(value) for name, value in numbers.items() if isinstance(value, int | float)}
    # JSON has no NaN, and other programs refuse it.
    return {name: value for name, value in found.items() if math.isfinite(value)}
