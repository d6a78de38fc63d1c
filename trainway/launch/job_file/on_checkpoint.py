"""The section `on_checkpoint` of a job file: the job that is launched for each checkpoint."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from trainway.launch.program.on_checkpoint import STEP
from trainway.launch.program.program import EVALUATION_JOB
from trainway.launch.target.options import with_target_sections
from trainway.parts.job import LAUNCHER_SECTIONS, Job
from trainway.spec import strict_yaml
from trainway.spec.document import Document, read_document
from trainway.spec.problems import KeyPath, Problem, SpecError, show_key
from trainway.spec.values import Section

JobFile = TypeVar("JobFile", bound=BaseModel)
KEY = "on_checkpoint"
_JOB: KeyPath = (KEY, "job")
_EXAMPLE = f"for example checkpoint-{STEP}/trainer_state.json"


def _path_or_job(job: Any) -> Any:
    if isinstance(job, dict) or (isinstance(job, str) and job.strip()):
        return job
    remedy = "write the path of a job file, for example job: evaluate.yaml, or the keys of a job below it"
    raise PydanticCustomError("evaluation", "it is neither a path nor a job", {"remedy": remedy})


def _with_one_step(marker: str) -> str:
    if marker.count(STEP) == 1 and "/" in marker and ".." not in marker.split("/"):
        return marker
    # The description of a field cannot contain braces, because pydantic formats it.
    context = {"step": STEP, "remedy": f"write the file that is written last into each checkpoint, {_EXAMPLE}"}
    raise PydanticCustomError("marker", "it is no path of a file with {step} once in it", context)


class OnCheckpointSection(Section):
    """The job that is launched for each complete checkpoint, on the same target."""

    job: Annotated[
        Any, AfterValidator(_path_or_job), WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]})
    ] = Field(description="Path of the job file of the evaluation, relative to this file. Or the keys of that job.")
    every: int = Field(
        1,
        ge=1,
        description="Evaluate the checkpoints at multiples of this number of steps. Default: every checkpoint.",
    )
    at_most: int = Field(1, ge=1, description="Number of evaluations that run at once. Further checkpoints wait.")
    group: str | None = Field(
        None,
        min_length=1,
        description="Node group of the evaluations. Default: the first node group that is large enough.",
    )
    marker: Annotated[str, AfterValidator(_with_one_step)] | None = Field(
        None,
        description=f"File that a program of the section `run` writes last into each checkpoint, with {STEP} for the "
        f"number of the step, {_EXAMPLE}. A location, or a path below the outputs of the run. Required with `run`.",
    )


@functools.cache
def job_model(model: type[JobFile]) -> type[JobFile]:
    """Return the model of a job file with the keys that the launcher adds: sections of targets, and `on_checkpoint`."""
    # The training job reads its file too, and ignores the sections of the targets that it knows.
    base: type[JobFile] = with_target_sections(model, LAUNCHER_SECTIONS if model is Job else None)
    field = Field(None, description="Job that is launched for each complete checkpoint, on the same target.")
    fields: dict[str, Any] = {KEY: (OnCheckpointSection | None, field)}
    made = create_model(model.__name__, __base__=base, __module__=model.__module__, **fields)
    made.__doc__ = model.__doc__
    return made


def evaluation_document(document: Document, section: OnCheckpointSection) -> tuple[Document, str, Path]:
    """Return the job of the section as a document, its text, and the directory that its paths are relative to.

    Raises SpecError if its file cannot be read, or has evaluations of its own.
    """
    if isinstance(section.job, dict):
        positions = {path[2:]: where for path, where in document.positions.items() if path[:2] == _JOB}
        nested = Document(document.file, section.job, positions)
        text, directory = strict_yaml.dump(section.job), document.file.parent
    else:
        kept = document.file.with_name(EVALUATION_JOB)
        file = kept if document.file.name == "job.yaml" and kept.is_file() else document.file.parent / section.job
        try:
            nested = read_document(file)
        except SpecError as error:
            raise SpecError(in_evaluation(document, section, error.problems)) from None
        text, directory = file.read_text(encoding="utf-8-sig"), file.parent
    if KEY in nested.data:
        cycle = nested.problem((KEY,), "an evaluation has no evaluations of its own", f"remove `{KEY}` there")
        raise SpecError(in_evaluation(document, section, [cycle]))
    return nested, text, directory


def in_evaluation(document: Document, section: OnCheckpointSection, problems: Any) -> list[Problem]:
    """Return the problems of the job of the section as problems of the file that has the section."""
    if isinstance(section.job, dict):
        return [
            Problem(each.file, each.line, each.column, (*_JOB, *each.key), each.value, each.reason, each.remedy)
            for each in problems
        ]
    told = []
    for each in problems:
        key = f"{show_key(each.key)}: " if each.key else ""
        told.append(document.problem(_JOB, f"{each.file}:{each.line}:{each.column}: {key}{each.reason}", each.remedy))
    return told


def marker_problems(document: Document, section: OnCheckpointSection, saved: int | str | None) -> list[Problem]:
    """Return the problems of `marker` and `every`.

    `saved` is the number of steps between the checkpoints of a training job, or `auto`. None: the program does not say
    when it saves a checkpoint, and so the section has to.
    """
    if saved is None:
        if section.marker is not None or "marker" in document.data[KEY]:
            return []
        reason = "the section `run` does not say when a checkpoint is complete"
        return [document.problem((KEY,), reason, f"add `marker`, {_EXAMPLE}")]
    if section.marker is not None:
        reason = "the checkpoints of the training job are known"
        return [document.problem((KEY, "marker"), reason, "remove `marker`")]
    if isinstance(saved, int) and section.every > 1 and section.every % saved:
        reason = f"checkpoint.every is {saved}, so that most multiples of {section.every} have no checkpoint"
        fix = f"use a multiple of {saved}, such as {-(-section.every // saved) * saved}"
        return [document.problem((KEY, "every"), reason, fix)]
    return []
