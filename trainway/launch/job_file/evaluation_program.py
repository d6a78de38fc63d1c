"""The program that evaluates a checkpoint, from the job that the evaluated run names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainway.launch.job_file.programs import program_of
from trainway.launch.program.on_checkpoint import EvaluatedCheckpoint, OnCheckpoint
from trainway.launch.program.program import Program
from trainway.spec import strict_yaml

_LONGEST_NAME = 50


def evaluation_program(job: OnCheckpoint, evaluation: EvaluatedCheckpoint, team: str | None) -> Program:
    """Return the program of an evaluation. `team` is the team of the evaluated run, and the default for the evaluation.

    A training job starts from the weights of the checkpoint, and its own checkpoints have a location of their own.
    """
    document = strict_yaml.read(job.text).data
    changes: dict[str, Any] = {} if team is None or document.get("team") else {"team": team}
    if "run" not in document:
        suffix, checkpoint = f"-{evaluation.step}", dict(document.get("checkpoint") or {})
        if "location" in checkpoint:
            checkpoint["location"] = f"{checkpoint['location']}{suffix}"
        name = str(document["name"])[: _LONGEST_NAME - len(suffix)].rstrip("-")
        changes |= {"name": f"{name}{suffix}", "checkpoint": {**checkpoint, "start_from": evaluation.checkpoint}}
    text = strict_yaml.dump({**document, **changes}) if changes else job.text
    return evaluating(program_of({**document, **changes}, text, directory=job.directory), evaluation)


def evaluating(program: Program, evaluation: EvaluatedCheckpoint) -> Program:
    """Return the program with the environment variables that describe the checkpoint.

    A training job has none: its job file names the checkpoint.
    """
    if program.started_by is None:
        return program
    told = {"TRAINWAY_CHECKPOINT_STEP": str(evaluation.step), "TRAINWAY_EVALUATED_RUN": evaluation.run}
    return replace(
        program,
        environment={**program.environment, **told},
        located={**program.located, "TRAINWAY_CHECKPOINT": evaluation.checkpoint},
        inputs=(*program.inputs, evaluation.checkpoint),
        locations=(*program.locations, evaluation.checkpoint),
    )
