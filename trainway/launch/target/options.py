"""The options of a target: a frozen dataclass, from which its flags and its section in job files are made.

    @dataclass(frozen=True)
    class QueueOptions:
        queue: Annotated[str | None, Flag("Queue of the run. Default: the user's own.")] = None

A field may be a bool, int, float, str, path, or Literal, each of them also optional. Each field has a default. The
annotations describe the flags of `trainway launch`. A job file has the same options in a section with the name of the
target, for example `slurm: {borrow: true}`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model

from trainway.launch.target.known import AnyTarget, all_targets
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.values import Section

Options = TypeVar("Options")
JobFile = TypeVar("JobFile", bound=BaseModel)


@dataclasses.dataclass(frozen=True)
class Flag:
    """The flag of an option: its help text, its name if that is not the field's, its unit, and its least value.

    `name` is written as the field of a dataclass, for example `time_limit` for `--time-limit`. Two targets may have a
    flag of one name if it means the same; `trainway launch --help` shows the description of the first. An option that
    says who submits (`of_person`) is never taken from the record of a run.
    """

    help: str
    name: str | None = None
    metavar: str | None = None
    least: int | None = None
    of_person: bool = False


@dataclasses.dataclass(frozen=True)
class Declared:
    """An option as its dataclass declares it: the field, the flag's name, the type, the default, and the flag.

    `path` is the class of paths in the type, such as PurePosixPath in `PurePosixPath | None`, or None if there is none.
    """

    field: str
    name: str
    kind: Any
    default: Any
    flag: Flag
    path: type[PurePath] | None


def options_of_targets() -> list[tuple[AnyTarget, list[Declared]]]:
    """Return the targets that can be imported, each with its options."""
    return [(target, declared_options(target.options)) for target in all_targets()]


def declared_options(options: type[Any]) -> list[Declared]:
    """Return the options of a dataclass that have a flag, in their order."""
    hints = get_type_hints(options, include_extras=True)
    found = []
    for field in dataclasses.fields(options):
        if get_origin(hints[field.name]) is Annotated:
            kind, *notes = get_args(hints[field.name])
            for flag in (note for note in notes if isinstance(note, Flag)):
                found.append(Declared(field.name, flag.name or field.name, kind, field.default, flag, _path_type(kind)))
    return found


def options_from(options: type[Options], said: Mapping[str, Any], target: str) -> Options:
    """Return the options with the values that were said, by the flags' names. None stands for the default.

    Raises UsageError for a value of an option that the target does not have.
    """
    known = {each.name: each for each in declared_options(options)}
    values = {name: value for name, value in said.items() if value is not None}
    for name in values:
        if name not in known:
            raise not_supported(name, target)
    return options(**{known[name].field: _typed(known[name].path, value) for name, value in values.items()})


def options_record(options: Any) -> dict[str, Any]:
    """Return the options as plain values for JSON, by the flags' names, as `options_from` reads them."""
    values = {each.name: getattr(options, each.field) for each in declared_options(type(options))}
    return {name: str(value) if isinstance(value, PurePath) else value for name, value in values.items()}


def options_of_anybody(options: type[Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a record without those that identify the person who submits."""
    own = {each.name for each in declared_options(options) if each.flag.of_person}
    return {name: value for name, value in record.items() if name not in own}


def not_supported(name: str, target: str) -> UsageError:
    """Return the error for a flag, by its field's name, that the target does not have."""
    return usage_error(
        f"`--{name.replace('_', '-')}` is not supported by the `{target}` target",
        why="it is an option of another target",
        fix="leave it out, or name the --target that it is meant for; `trainway launch --help` lists them",
    )


def _path_type(kind: Any) -> type[PurePath] | None:
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, PurePath):
            return each
    return None


def _typed(path: type[PurePath] | None, value: Any) -> Any:
    return value if path is None else path(value)


@functools.cache
def with_target_sections(model: type[JobFile], only: tuple[str, ...] | None = None) -> type[JobFile]:
    """Return the model of a job file with a section for each target. A section has the types of the target's flags.

    `only` are the names of the targets that get one. None is all targets, those of other packages among them.
    """
    sections: dict[str, Any] = {
        target.name: (_section(target) | None, Field(None, description=_description(target)))
        for target in all_targets()
        # A target of another package can have the name of a key, and then has flags only.
        if target.name not in model.model_fields and (only is None or target.name in only)
    }
    made = create_model(model.__name__, __base__=model, __module__=model.__module__, **sections)
    made.__doc__ = model.__doc__
    return made


def options_in(file: BaseModel) -> Mapping[str, Mapping[str, Any]]:
    """Return the options that a job file sets, by the names of the target and of the flag.

    `file` is a value of a model of `with_target_sections`.
    """
    return {
        name: section.model_dump(exclude_unset=True, exclude_none=True)
        for name, section in file
        if isinstance(section, _Section)
    }


class _Section(Section):
    """A section of a target."""


def _section(target: AnyTarget) -> type[BaseModel]:
    """Return the model of a target's section. No key is required."""
    keys: dict[str, Any] = {}
    for each in declared_options(target.options):
        # A flag's value is text, too.
        kind = str if each.path else each.kind
        keys[each.name] = (kind | None, Field(None, description=each.flag.help, ge=each.flag.least))
    made = create_model(f"{target.name.capitalize()}Section", __base__=_Section, **keys)
    made.__doc__ = _description(target)
    return made


def _description(target: AnyTarget) -> str:
    return f"Options of `trainway launch --target {target.name}`, by the names of the flags. A flag overrides them."
