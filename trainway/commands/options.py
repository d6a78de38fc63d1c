"""The options of a command as a frozen dataclass, whose fields are annotated as the parameters of a Typer command.

    @dataclass(frozen=True)
    class LogsOptions:
        tail: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the last N lines.")] = None

    @takes_options
    def logs(name: RunName, *, options: LogsOptions) -> None:

A field may itself be such a dataclass, for options that several commands or functions share. The help shows the options
in the order of the fields.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with a parameter for each option, as Typer reads it. A call builds the dataclasses."""

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        _call(command, values)

    return with_parameters(flat, _flattened(command))


def with_parameters(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Return a function after giving it the parameters that Typer reads."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return function


def _flattened(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function, with the fields of a dataclass in place of the dataclass."""
    found: list[inspect.Parameter] = []
    for each in _parameters(function):
        # Only as a keyword may a parameter without a default follow one that has a default.
        as_keyword = each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        found += _flattened(each.annotation) if _has_options(each) else [as_keyword]
    return found


def _call(function: Callable[..., Result], values: dict[str, Any]) -> Result:
    """Call a function with its parameters among the values, and with the dataclasses that the values make."""
    arguments = {
        each.name: _call(each.annotation, values) if _has_options(each) else values[each.name]
        for each in _parameters(function)
    }
    return function(**arguments)


def _parameters(function: Callable[..., Any]) -> Iterable[inspect.Parameter]:
    """Return the parameters of a function, or of the constructor of a dataclass, with their annotations as types."""
    return inspect.signature(function, eval_str=True).parameters.values()


def _has_options(parameter: inspect.Parameter) -> bool:
    return is_dataclass(parameter.annotation)
