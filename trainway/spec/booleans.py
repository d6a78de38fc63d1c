"""Refuse `true` and `false` where a model has a number. By default, pydantic reads them as 1 and 0.

training/config/booleans.py has the same function, because the job and the specification do not import each other.
"""

from __future__ import annotations

from typing import Any

from pydantic_core import PydanticCustomError, core_schema

_NUMBERS = ("int", "float")


def refuse_booleans(schema: Any) -> Any:
    """Return a pydantic schema that refuses Booleans in place of numbers, in lists, mappings, and unions, too.

    The types of the errors are those that pydantic has for text in place of a number.
    """
    if isinstance(schema, list):
        return [refuse_booleans(each) for each in schema]
    if not isinstance(schema, dict) or schema.get("function", {}) in _CHECKS:
        return schema
    changed = {key: refuse_booleans(each) for key, each in schema.items() if key != "metadata"}
    if "metadata" in schema:
        changed["metadata"] = schema["metadata"]
    if schema.get("type") in _NUMBERS:
        check = _not_for_int if schema["type"] == "int" else _not_for_float
        return core_schema.no_info_before_validator_function(check, changed)
    return changed


def _not_for_int(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("int_type", "Input should be a valid integer")
    return value


def _not_for_float(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("float_type", "Input should be a valid number")
    return value


_CHECKS = tuple({"type": "no-info", "function": each} for each in (_not_for_int, _not_for_float))
