"""The programs that job files describe. The only module that knows the kinds of job files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainway.launch.job_file.command_flags import NO_FLAGS, CommandFlags, refusal
from trainway.launch.job_file.on_checkpoint import (
    KEY,
    OnCheckpointSection,
    evaluation_document,
    in_evaluation,
    job_model,
    marker_problems,
)
from trainway.launch.job_file.run_file import RunFile
from trainway.launch.job_file.run_program import run_program
from trainway.launch.job_file.training_program import training_program
from trainway.launch.program.on_checkpoint import STEP, OnCheckpoint
from trainway.launch.program.program import EVALUATION_JOB, Program
from trainway.launch.target.known import target_names
from trainway.parts.job import Job
from trainway.spec import strict_yaml
from trainway.spec.document import Document, read_document
from trainway.spec.errors import usage_error
from trainway.spec.loader import validate
from trainway.spec.problems import Problem, SpecError

INTERACTIVE_HOURS = 8
"""The longest time of an allocation with a shell, which the shell's end usually ends."""


def load_program(file: Path, until_step: int | None = None) -> Program:
    """Return the program of a job file, which stops after the step `until_step`, if given.

    Raises SpecError with every problem of the file, and UsageError if the program has no such steps.
    """
    document = read_document(file)
    text = file.read_text(encoding="utf-8-sig")
    value, problems = validate(document, job_model(_kind(document.data)))
    on_checkpoint, further = _evaluations(document, value)
    if value is None or problems or further:
        raise SpecError([*problems, *further])
    return _program(value, text, file.parent, until_step, on_checkpoint)


def program_of(
    document: Mapping[str, Any], text: str, until_step: int | None = None, directory: Path = Path()
) -> Program:
    """Return the program of a job file's content, which `text` says. The file is in `directory`.

    Raises pydantic's ValidationError, SpecError for problems of its evaluations, and UsageError if the program has no
    such steps.
    """
    value = job_model(_kind(document)).model_validate(document)
    on_checkpoint, problems = _evaluations(Document(directory / "job.yaml", dict(document), {}), value)
    if problems:
        raise SpecError(problems)
    return _program(value, text, directory, until_step, on_checkpoint)


def load_recorded_program(run: Path) -> Program:
    """Return the program of the job file in the record of a run, in the run's directory.

    Other people write records. Raises UsageError if the job file names a job of its evaluations that is not in the
    record, because the record would choose a file of this machine. Raises SpecError as `load_program` does.
    """
    file = run / "job.yaml"
    section = read_document(file).data.get(KEY)
    named = section.get("job") if isinstance(section, dict) else None
    if isinstance(named, str) and not (run / EVALUATION_JOB).is_file():
        why = f"its job file names the job of its evaluations, and the record has no {EVALUATION_JOB}"
        raise usage_error(f"the record of {run.name} is incomplete", why=why, fix="launch the job anew")
    return load_program(file)


def _kind(document: Mapping[str, Any]) -> type[RunFile] | type[Job]:
    return RunFile if "run" in document else Job


def _program(
    value: RunFile | Job, text: str, directory: Path, until_step: int | None, on_checkpoint: OnCheckpoint | None
) -> Program:
    if isinstance(value, RunFile):
        program = run_program(value, text, directory)
        _refuse_steps(program, until_step)
    else:
        program = training_program(value, text, until_step)
    return replace(program, on_checkpoint=on_checkpoint)


def _evaluations(document: Document, value: RunFile | Job | None) -> tuple[OnCheckpoint | None, list[Problem]]:
    """Return the evaluation of the checkpoints of a job, or None without one, and all problems of the evaluation."""
    section: OnCheckpointSection | None = getattr(value, "on_checkpoint", None)
    if value is None or section is None:
        return None, []
    problems = marker_problems(document, section, value)
    try:
        nested, text, directory = evaluation_document(document, section)
    except SpecError as error:
        return None, [*problems, *error.problems]
    problems += in_evaluation(document, section, validate(nested, job_model(_kind(nested.data)))[1])
    # training/checkpoint/stored.py names the checkpoints.
    marker = section.marker or f"{getattr(value, 'checkpoint_location', '')}/step-{STEP}/.metadata"
    found = OnCheckpoint(text, directory, marker, section.every, section.at_most, section.group)
    return found, problems


def program_of_command(words: Sequence[str], directory: Path, flags: CommandFlags = NO_FLAGS) -> Program:
    """Return the program of a command, which starts in the code of a directory. torchrun starts a single Python file.

    Raises UsageError for words or flags that no job file can have.
    """
    command = ["torchrun", *words] if len(words) == 1 and words[0].endswith(".py") else list(words)
    named = next((word for word in words if word.endswith(".py")), words[0])
    name = re.sub(r"[^a-z0-9]+", "-", Path(named).stem.lower()).strip("-0123456789")[:50].rstrip("-") or "program"
    document = {
        "name": name,
        "nodes": flags.nodes or 1,
        **({"team": flags.team} if flags.team else {}),
        "run": {"command": command, "code": str(directory), **flags.in_run(os.environ)},
    }
    text = strict_yaml.dump(document)
    try:
        return program_of(document, text, directory=directory)
    except ValidationError as error:
        raise refusal(f"{' '.join(words)} cannot be launched", error) from None


def interactive_program(file: Path | None, flags: CommandFlags = NO_FLAGS) -> Program:
    """Return the program of an allocation with a shell: it waits on every node until the shell ends.

    With a job file, its nodes, team, environment, and options of targets are those of the allocation. Without one, the
    `flags` describe it. Raises SpecError with every problem of the file, and UsageError for flags that no job file can
    have.
    """
    if file is None:
        directory, run = Path.cwd(), flags.in_run(os.environ)
        document = dict[str, Any](name="interactive", nodes=flags.nodes or 1, team=flags.team)
    else:
        load_program(file)
        directory, said = file.parent, read_document(file).data
        run = {key: value for key, value in said.get("run", {}).items() if key not in ("command", "script", "metrics")}
        taken = ("name", "nodes", "team", *target_names())
        document = {key: value for key, value in said.items() if key in taken}
    document["run"] = {**run, "command": ["sleep", str(INTERACTIVE_HOURS * 3600)], "stop": {"grace": 5}}
    try:
        return program_of(document, strict_yaml.dump(document), directory=directory)
    except ValidationError as error:
        raise refusal("a shell cannot be opened", error) from None


def _refuse_steps(program: Program, until_step: int | None) -> None:
    if until_step is not None:
        raise usage_error(
            f"{program.name} cannot stop after step {until_step}",
            why="Trainway does not count the steps of a program that a section `run` starts",
            fix="leave --until-step out, and tell the program in its own `command`",
        )
