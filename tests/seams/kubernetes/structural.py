"""Reads an object by a structural schema as the Kubernetes API server does with strict field validation.

The schema becomes a JSON Schema that allows no field beyond those it names. Two keywords of Kubernetes become keywords
of the validator: the types of lists, and the CEL rules.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
https://kubernetes.io/docs/reference/using-api/api-concepts/#setting-the-field-validation-level (both read 2026-11-22)
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from tests.seams.kubernetes import cel_rules

# `metadata` of the root is read by metadata.py, as the API server reads it by a type of its own.
ROOT_FIELDS = ("apiVersion", "kind", "metadata")
KNOWN_FORMATS = {"int32", "int64", "date-time"}


def _is_integer_of(bits: int) -> Callable[[object], bool]:
    return lambda value: not isinstance(value, int) or -(2 ** (bits - 1)) <= value < 2 ** (bits - 1)


def _is_date_time(value: object) -> bool:
    return not isinstance(value, str) or datetime.fromisoformat(value).tzinfo is not None


FORMATS = FormatChecker(formats=())
FORMATS.checkers = {
    "int32": (_is_integer_of(32), ()),
    "int64": (_is_integer_of(64), ()),
    "date-time": (_is_date_time, ValueError),
}


def _list_type(validator: Any, kind: str, instance: Any, schema: dict[str, Any]) -> Iterator[ValidationError]:
    """No two items of a `set` are equal, and no two of a `map` have the same keys."""
    if not validator.is_type(instance, "array") or kind == "atomic":
        return
    names = schema.get("x-kubernetes-list-map-keys", ())
    seen = set()
    for item in instance:
        if kind == "map" and not isinstance(item, dict):
            continue
        key = json.dumps([item.get(name) for name in names] if kind == "map" else item, sort_keys=True)
        if key in seen:
            yield ValidationError(f"two items have the same {' and '.join(names) or 'value'}: {key}")
        seen.add(key)


def _rules(_: Any, rules: list[dict[str, Any]], instance: Any, __: dict[str, Any]) -> Iterator[ValidationError]:
    """Each rule holds when the object is created, and when it is applied again unchanged."""
    for each in rules:
        problem = cel_rules.problem(each["rule"], instance)
        if problem:
            yield ValidationError(f"{each.get('message', 'a rule is broken')} ({problem})")


Validator = extend(Draft202012Validator, {"x-kubernetes-list-type": _list_type, "x-kubernetes-validations": _rules})


def strict(schema: dict[str, Any], *, root: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a structural schema, with unknown fields refused."""
    made = {key: value for key, value in schema.items() if key not in ("properties", "items", "additionalProperties")}
    assert made.get("format") in (None, *KNOWN_FORMATS), made
    if "pattern" in made:
        # Go takes a flag anywhere in an expression, and Python at its start.
        made["pattern"] = re.sub(r"^\^\(\?i\)(.*)$", r"^(?i:\1)", made["pattern"])
    if "properties" in schema:
        made["properties"] = {name: strict(each) for name, each in schema["properties"].items()}
        if root:
            made["properties"] |= {name: {} for name in ROOT_FIELDS}
    if "items" in schema:
        made["items"] = strict(schema["items"])
    if isinstance(schema.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(schema["additionalProperties"])
    elif schema.get("type") == "object" and not schema.get("x-kubernetes-preserve-unknown-fields"):
        made["additionalProperties"] = False
    return made


def with_defaults(schema: dict[str, Any], value: Any) -> Any:
    """Return the value with the schema's defaults, which the API server sets before it validates."""
    if isinstance(value, dict):
        fields = schema.get("properties", {})
        given = {name: each["default"] for name, each in fields.items() if "default" in each and name not in value}
        rest = schema.get("additionalProperties")
        other = rest if isinstance(rest, dict) else {}
        return {name: with_defaults(fields.get(name, other), each) for name, each in {**value, **given}.items()}
    if isinstance(value, list):
        return [with_defaults(schema.get("items", {}), each) for each in value]
    return value


def refusals(validator: Any, document: Any) -> list[str]:
    """Return why the document is refused, each with its path in the document."""
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(document)]
