"""The programs that job files and commands describe. The only module that knows the kinds of job files.

`_program` is the door: a job file with `model` and one with `run` both leave it as a Program, and nothing behind it
asks which of the two a program was. What differs is in fields of Program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from trainway.launch.job_file.on_checkpoint import (
    KEY,
    OnCheckpointSection,
    evaluation_document,
    in_evaluation,
    job_model,
    marker_problems,
)
from trainway.launch.job_file.run_file import RunFile, looks_like_secret
from trainway.launch.job_file.run_program import run_program
from trainway.launch.job_file.training_program import training_program
from trainway.launch.program.on_checkpoint import STEP, EvaluatedCheckpoint, OnCheckpoint
from trainway.launch.program.program import EVALUATION_JOB, Program, RunLifeCycle
from trainway.launch.program.trackers import ProgramTrackers
from trainway.launch.target.known import target_names
from trainway.launch.target.options import options_in
from trainway.parts.job import SAGEMAKER_MLFLOW, Job, Trackers
from trainway.spec import strict_yaml
from trainway.spec.document import Document, read_document
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.loader import validate
from trainway.spec.problems import Problem, SpecError

INTERACTIVE_HOURS = 8
"""The longest time of an allocation with a shell, which the shell's end usually ends."""
KEYS_OF_FLAGS: Final[Mapping[str, str]] = {
    "--nodes": "nodes",
    "--team": "team",
    "--env": "run.environment",
    "--packages": "run.packages",
}
"""The key of a job file that each flag stands for."""
_SUFFIXES_OF_LISTS: Final = (".txt", ".in")
_LONGEST_NAME = 50


@dataclass(frozen=True)
class CommandFlags:
    """The flags that describe a command without a job file. Each has the rules of a key of job files.

    `environment` has words NAME=VALUE or NAME, and `packages` packages or one file.
    """

    nodes: int | None = None
    team: str | None = None
    environment: Sequence[str] = ()
    packages: Sequence[str] = ()

    @property
    def first(self) -> str | None:
        """Return the first flag that has a value, or None."""
        values = (self.nodes, self.team, self.environment or None, self.packages or None)
        return next((flag for flag, value in zip(KEYS_OF_FLAGS, values, strict=True) if value is not None), None)

    def in_run(self, caller: Mapping[str, str]) -> dict[str, Any]:
        """Return the keys of a section `run` that the flags stand for. `caller` has the variables of this process.

        Raises UsageError for words that are no value of the keys.
        """
        keys: dict[str, Any] = {}
        if self.environment:
            keys["environment"] = _environment(self.environment, caller)
        if self.packages:
            keys["packages"] = _packages(self.packages)
        return keys


NO_FLAGS: Final = CommandFlags()


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


def job_schema() -> dict[str, Any]:
    """Return the JSON Schema of job files, of both kinds."""
    files: Any = job_model(RunFile) | job_model(Job)
    return TypeAdapter(files).json_schema()


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
    """Return the program of a job file of either kind: the one place where a launch tells them apart.

    Trainway's training job has `model`, and starts on each node by its own command, without a starter (`started_by` is
    None). Any other program has `run`, and trainway/launch/node/start_program.py starts it.
    """
    if isinstance(value, RunFile):
        _refuse_steps(value.name, until_step)
        program = run_program(value, text, directory)
    else:
        program = training_program(value, text, until_step)
    life_cycle = value.life_cycle
    return replace(
        program,
        life_cycle=RunLifeCycle(
            life_cycle.restarts,
            life_cycle.process_restarts,
            life_cycle.keep_hours,
            frozenset(life_cycle.model_fields_set),
        ),
        trackers=_trackers(value.trackers, value.name, packages=not isinstance(value, RunFile)),
        options=options_in(value),
        on_checkpoint=on_checkpoint,
    )


def _trackers(trackers: Trackers, job: str, *, packages: bool) -> ProgramTrackers:
    """Return the trackers of a job with this name, with the `packages` that its Python has to have."""
    outside, mlflow = dict[str, tuple[str, str]](), trackers.mlflow
    own_server = "set `base_url` to a server in your network"
    if trackers.wandb and trackers.wandb.mode == "online" and trackers.wandb.base_url is None:
        outside["wandb"] = ("api.wandb.ai", f"set `mode: offline` and upload with `wandb sync`, or {own_server}")
    if trackers.comet and trackers.comet.mode == "online" and trackers.comet.base_url is None:
        outside["comet"] = ("www.comet.com", f"set `mode: offline` and upload with `comet upload`, or {own_server}")
    uri = mlflow.tracking_uri if mlflow else None
    return ProgramTrackers(
        variables=partial(trackers.environment, job),
        # A program of a section `run` brings its packages itself.
        packages=trackers.packages if packages else {},
        outside=outside,
        of_aws={"mlflow": uri} if uri and SAGEMAKER_MLFLOW.fullmatch(uri) else {},
        needs_platform_mlflow=mlflow is not None and uri is None,
    )


def _evaluations(document: Document, value: RunFile | Job | None) -> tuple[OnCheckpoint | None, list[Problem]]:
    """Return the evaluation of the checkpoints of a job, or None without one, and all problems of the evaluation."""
    section: OnCheckpointSection | None = getattr(value, "on_checkpoint", None)
    if value is None or section is None:
        return None, []
    problems = marker_problems(document, section, None if isinstance(value, RunFile) else value.checkpoint.every)
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
        raise _refusal(f"{' '.join(words)} cannot be launched", error) from None


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
        raise _refusal("a shell cannot be opened", error) from None


def _refuse_steps(name: str, until_step: int | None) -> None:
    if until_step is not None:
        raise usage_error(
            f"{name} cannot stop after step {until_step}",
            why="Trainway does not count the steps of a program that a section `run` starts",
            fix="leave --until-step out, and tell the program in its own `command`",
        )


def evaluation_program(job: OnCheckpoint, evaluation: EvaluatedCheckpoint, team: str | None) -> Program:
    """Return the program of an evaluation. `team` is the team of the evaluated run, and the default for the evaluation.

    A training job starts from the weights of the checkpoint, and its own checkpoints have a location of their own.
    """
    document = strict_yaml.read(job.text).data
    changes: dict[str, Any] = {} if team is None or document.get("team") else {"team": team}
    if _kind(document) is Job:
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


def _refusal(what: str, error: ValidationError) -> UsageError:
    """Return the error for flags that no job file can have. The message has no value of a variable."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part) for part in first["loc"] if isinstance(part, str))
    flag = next((flag for flag, of in KEYS_OF_FLAGS.items() if key == of or key.startswith(f"{of}.")), None)
    fix = first.get("ctx", {}).get("remedy", "write a job file: docs/your-program.md")
    if flag == "--packages":
        flag = f"--packages {first['input']}"
    elif flag == "--env" and first["type"] == "secret":
        fix = f"write a job file: docs/your-program.md. In its section `run`, {fix}"
    return usage_error(f"{what}{f' with {flag}' if flag else ''}", why=first["msg"], fix=fix)


def _environment(words: Sequence[str], caller: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, equals, value in (word.partition("=") for word in words):
        if name in found:
            raise usage_error(f"--env {name} is given twice", why="a variable has one value", fix="leave one out")
        # A name that looks like a secret is refused with the other names, whether the caller has it or not.
        if not equals and name not in caller and not looks_like_secret(name):
            why = "NAME without a value is a variable of the shell that launches, and it has none of this name"
            raise usage_error(f"--env {name} has no value", why=why, fix=f"export {name}, or write --env {name}=VALUE")
        found[name] = value if equals else caller.get(name, "")
    return found


def _packages(words: Sequence[str]) -> str | list[str]:
    """Return the packages as a job file has them: a list, or the path of a file with requirements."""
    files = [word for word in words if _is_file(word)]
    if not files:
        return list(words)
    if len(words) > 1:
        why = "a launch takes one file with requirements, or packages by their names"
        fix = f"write the packages into {files[0]}, or name packages only"
        raise usage_error(f"--packages {' --packages '.join(words)} cannot be used", why=why, fix=fix)
    return files[0]


def _is_file(word: str) -> bool:
    """Return whether a word is a path, there or not. An address is neither a path nor a package of the index."""
    return "://" not in word and ("/" in word or word.endswith(_SUFFIXES_OF_LISTS) or Path(word).is_file())
