"""The options of a target: a frozen dataclass whose annotations describe the flags of `trainway launch`.

    @dataclass(frozen=True)
    class QueueOptions:
        queue: Annotated[str | None, Flag("Queue of the run. Default: the user's own.")] = None

A field may be a bool, int, float, str, path, or Literal, each of them also optional. Each field has a default.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

from trainway.spec.errors import UsageError, usage_error

Options = TypeVar("Options")


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
    """An option as its dataclass declares it: the field, the flag's name, the type, the default, and the flag."""

    field: str
    name: str
    kind: Any
    default: Any
    flag: Flag


def declared_options(options: type[Any]) -> list[Declared]:
    """Return the options of a dataclass that have a flag, in their order."""
    hints = get_type_hints(options, include_extras=True)
    found = []
    for field in dataclasses.fields(options):
        if get_origin(hints[field.name]) is Annotated:
            kind, *notes = get_args(hints[field.name])
            for flag in (note for note in notes if isinstance(note, Flag)):
                found.append(Declared(field.name, flag.name or field.name, kind, field.default, flag))
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
    return options(**{known[name].field: _typed(known[name].kind, value) for name, value in values.items()})


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


def path_type(kind: Any) -> type[PurePath] | None:
    """Return the class of paths in a type such as `PurePosixPath | None`, or None if there is none."""
    for each in (kind, *get_args(kind)):
        if isinstance(each, type) and issubclass(each, PurePath):
            return each
    return None


def _typed(kind: Any, value: Any) -> Any:
    path = path_type(kind)
    return value if path is None else path(value)
