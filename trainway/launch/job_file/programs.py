"""The programs that job files describe. The only module that knows the kinds of job files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainway.launch.job_file.run_file import RunFile
from trainway.launch.job_file.run_program import run_program
from trainway.launch.job_file.training_program import training_program
from trainway.launch.program.program import Program
from trainway.launch.target.known import target_names
from trainway.launch.target.sections import with_target_sections
from trainway.parts.job import LAUNCHER_SECTIONS, Job
from trainway.spec import strict_yaml
from trainway.spec.document import read_document
from trainway.spec.errors import usage_error
from trainway.spec.loader import load

INTERACTIVE_HOURS = 8
"""The longest time of an allocation with a shell, which the shell's end usually ends."""


def load_program(file: Path, until_step: int | None = None) -> Program:
    """Return the program of a job file, which stops after the step `until_step`, if given.

    Raises SpecError with every problem of the file, and UsageError if the program has no such steps.
    """
    document = read_document(file)
    text = file.read_text(encoding="utf-8-sig")
    if "run" not in document.data:
        return training_program(load(file, with_target_sections(Job, LAUNCHER_SECTIONS)), text, until_step)
    program = run_program(load(file, with_target_sections(RunFile)), text, file.parent)
    _refuse_steps(program, until_step)
    return program


def program_of(
    document: Mapping[str, Any], text: str, until_step: int | None = None, directory: Path = Path()
) -> Program:
    """Return the program of a job file's content, which `text` says. The file is in `directory`.

    Raises pydantic's ValidationError, and UsageError if the program has no such steps.
    """
    if "run" not in document:
        return training_program(with_target_sections(Job, LAUNCHER_SECTIONS).model_validate(document), text, until_step)
    program = run_program(with_target_sections(RunFile).model_validate(document), text, directory)
    _refuse_steps(program, until_step)
    return program


def program_of_command(words: Sequence[str], directory: Path, *, nodes: int = 1, team: str | None = None) -> Program:
    """Return the program of a command, which starts in the code of a directory. torchrun starts a single Python file.

    Raises UsageError for words that no job file can have.
    """
    command = ["torchrun", *words] if len(words) == 1 and words[0].endswith(".py") else list(words)
    named = next((word for word in words if word.endswith(".py")), words[0])
    name = re.sub(r"[^a-z0-9]+", "-", Path(named).stem.lower()).strip("-0123456789")[:50].rstrip("-") or "program"
    document = {
        "name": name,
        "nodes": nodes,
        **({"team": team} if team else {}),
        "run": {"command": command, "code": str(directory)},
    }
    text = strict_yaml.dump(document)
    try:
        return program_of(document, text, directory=directory)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        fix = first.get("ctx", {}).get("remedy", "write a job file: docs/your-program.md")
        raise usage_error(f"{' '.join(words)} cannot be launched", why=first["msg"], fix=fix) from None


def interactive_program(file: Path | None, *, nodes: int = 1, team: str | None = None) -> Program:
    """Return the program of an allocation with a shell: it waits on every node until the shell ends.

    With a job file, its nodes, team, environment, and options of targets are those of the allocation.
    Raises SpecError with every problem of the file.
    """
    if file is None:
        directory, document, run = Path.cwd(), dict[str, Any](name="interactive", nodes=nodes, team=team), {}
    else:
        load_program(file)
        directory, said = file.parent, read_document(file).data
        run = {key: value for key, value in said.get("run", {}).items() if key not in ("command", "script", "metrics")}
        taken = ("name", "nodes", "team", *target_names())
        document = {key: value for key, value in said.items() if key in taken}
    document["run"] = {**run, "command": ["sleep", str(INTERACTIVE_HOURS * 3600)], "stop": {"grace": 5}}
    return program_of(document, strict_yaml.dump(document), directory=directory)


def _refuse_steps(program: Program, until_step: int | None) -> None:
    if until_step is not None:
        raise usage_error(
            f"{program.name} cannot stop after step {until_step}",
            why="Trainway does not count the steps of a program that a section `run` starts",
            fix="leave --until-step out, and tell the program in its own `command`",
        )
