"""The orchestrators that support a key of the platform file, by the rules of `trainway check`."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml
from pydantic import ValidationError

from docs.generators import ROOT
from docs.generators.reference.keys import Part, parts_of
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform
from trainway.spec.rules import RULES
from trainway.spec.sections.orchestrator import Orchestrator

_UNKNOWN = object()
_OF_ONE_KIND = ("kubernetes", "hyperpod", "slurm")


def orchestrators_of(path: str) -> str:
    """Return the names of the orchestrators that support a key, or nothing if all do or no value of it is known."""
    taken = _taken().get(path, ())
    return "" if len(taken) == len(Orchestrator) else ", ".join(taken)


@cache
def _taken() -> dict[str, tuple[Orchestrator, ...]]:
    schema = Platform.model_json_schema()
    everywhere = tuple(Orchestrator)
    taken: dict[str, tuple[Orchestrator, ...]] = {}
    for part in parts_of(schema, schema["$defs"]):
        above = taken.get(part.path.removesuffix("[]").removesuffix(".NAME"), everywhere)
        for key in part.schema["properties"]:
            path = f"{part.path}.{key}" if part.path else key
            taken[path] = tuple(each for each in above if _takes(part, key, schema["$defs"], each)) or above
    return taken


def _takes(part: Part, key: str, definitions: dict[str, Any], orchestrator: Orchestrator) -> bool:
    """Return whether an orchestrator accepts a value of a key that is not its default, or no such value is known."""
    values = list(_values(part.schema["properties"][key], definitions))
    refused = [_refuses(part, key, value, orchestrator) for value in values if value is not _UNKNOWN]
    known = [each for each in refused if each is not None]
    return _UNKNOWN in values or not known or not all(known)


def _values(schema: dict[str, Any], definitions: dict[str, Any]) -> Iterator[Any]:
    """Yield values of a key that are not its default. _UNKNOWN stands for those that the schema does not give."""
    found: list[Any] = []
    for each in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        found += _values(each, definitions)
    if "$ref" in schema:
        below = definitions[schema["$ref"].rpartition("/")[2]]
        found += [_UNKNOWN] if below.get("required") else below.get("enum", [{}])
    match schema.get("type"):
        case "boolean":
            found += [True, False]
        case "integer" | "number":
            least = schema.get("minimum", 0)
            found += [least, least + 1]
        case "string" | "array" | "object":
            found += schema.get("enum", [_UNKNOWN])
    yield from (value for value in found if value is _UNKNOWN or value != schema.get("default"))


def _refuses(part: Part, key: str, value: Any, orchestrator: Orchestrator) -> bool | None:
    """Return whether a rule refuses a key's value, or None if the value cannot be read."""
    data = _base(orchestrator)
    holder: Any = data
    route: list[str | int] = []
    for name in part.path.split(".") if part.path else ():
        plain = name.removesuffix("[]")
        if name == "NAME" or (name != plain and plain != "node_groups"):
            return None
        holder = holder.setdefault(plain, {})
        route.append(plain)
        if name != plain:
            holder = holder[0]
            route.append(0)
        if not isinstance(holder, dict):
            return None
    holder[key] = value
    try:
        platform = Platform.model_validate(data)
    except ValidationError:
        return None
    path = (*route, key)
    breaches = [breach for rule in RULES for breach in rule(platform, load_catalogue())]
    return any(breach[0][: len(path)] == path for breach in breaches)


@cache
def _example() -> dict[str, Any]:
    example: dict[str, Any] = yaml.safe_load((ROOT / "examples" / "eks-p5.yaml").read_text(encoding="utf-8"))
    return {key: value for key, value in example.items() if key not in _OF_ONE_KIND}


def _base(orchestrator: Orchestrator) -> dict[str, Any]:
    return copy.deepcopy(_example()) | {"orchestrator": orchestrator.value}
