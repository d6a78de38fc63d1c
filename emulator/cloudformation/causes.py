"""Find why a property of a resource changes, as a change set reports it: an edit, or a reference of the property.

The members are those of ResourceChangeDetail (CloudFormation API reference, API_ResourceChangeDetail).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from emulator.templates.intrinsics import SUB_VARIABLE, function_name


@dataclass(frozen=True)
class Cause:
    """The source of a property's change. `entity` is what the property refers to.

    `dynamic` is true if only the update knows the value.
    """

    source: str
    entity: str | None = None
    dynamic: bool = False


EDIT = Cause("DirectModification")


def causes(value: Any, changed: Set[str], parameters: Set[str]) -> list[Cause]:
    """Return why a property with this value in the template changes.

    `changed` are the logical IDs of the stack's resources that the change set changes, and `parameters` the names of
    the parameters that have another value.
    """
    found = dict.fromkeys(_causes(value, changed, parameters))
    return list(found) or [EDIT]


def at(value: Any, path: tuple[str, ...]) -> Any:
    """Return the value at a path below a template's value, or the function on the way to it."""
    for segment in path:
        if isinstance(value, list) and segment.isdigit() and int(segment) < len(value):
            value = value[int(segment)]
        elif isinstance(value, dict) and segment in value:
            value = value[segment]
        else:
            return value
    return value


def differences(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    """Yield path, old value, and new value of each difference. None means no value.

    Lists of different lengths differ as a whole.
    """
    if before == after:
        return
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key in sorted({*before, *after}):
            yield from differences(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, pair in enumerate(zip(before, after, strict=True)):
            yield from differences(*pair, (*path, str(index)))
    else:
        yield path, before, after


def _causes(value: Any, changed: Set[str], parameters: Set[str]) -> Iterator[Cause]:
    if isinstance(value, list):
        for item in value:
            yield from _causes(item, changed, parameters)
    if not isinstance(value, dict):
        return
    name = function_name(value)
    if name == "Ref":
        yield from _reference(value["Ref"], changed, parameters)
    elif name == "Fn::GetAtt":
        argument = value["Fn::GetAtt"]
        yield from _reference(argument if isinstance(argument, str) else ".".join(argument), changed, parameters)
    elif name == "Fn::Sub":
        text, variables = (value[name], {}) if isinstance(value[name], str) else value[name]
        for match in SUB_VARIABLE.finditer(text):
            yield from _reference(match[1].strip(), changed, parameters)
        yield from _causes(variables, changed, parameters)
    else:
        for item in value.values():
            yield from _causes(item, changed, parameters)


def _reference(name: str, changed: Set[str], parameters: Set[str]) -> Iterator[Cause]:
    if name in parameters:
        yield Cause("ParameterReference", name)
    elif name in changed:
        yield Cause("ResourceReference", name, dynamic=True)
    elif name.partition(".")[0] in changed:
        yield Cause("ResourceAttribute", name, dynamic=True)
