"""The model of SageMaker's API, all of it: botocore checks no maxima, patterns and enumerations before it asks."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any

import botocore.session
from botocore.validate import ParamValidator


@functools.cache
def _model() -> Any:
    return botocore.session.get_session().get_service_model("sagemaker")


def problems(operation: str, parameters: dict[str, Any]) -> list[str]:
    """What the API's model has against the parameters of an operation."""
    shape = _model().operation_model(operation).input_shape
    report = ParamValidator().validate(parameters, shape)
    return [report.generate_report()] if report.has_errors() else list(_limits(parameters, shape, "it"))


def _limits(value: Any, shape: Any, name: str) -> Iterator[str]:
    size = value if shape.type_name == "integer" else len(value) if shape.type_name in ("string", "list", "map") else 0
    if size > shape.metadata.get("max", size) or size < shape.metadata.get("min", size):
        yield f"{name} is {size}, not {shape.metadata.get('min')} to {shape.metadata.get('max')}"
    match shape.type_name:
        case "string":
            # Python has no \p: letters, spaces and digits are close to \w and \s.
            pattern = shape.metadata.get("pattern", ".*").replace(r"\p{L}\p{Z}\p{N}", r"\w\s")
            if not re.fullmatch(pattern, value, re.DOTALL):
                yield f"{name} does not match {pattern}"
            if shape.enum and value not in shape.enum:
                yield f"{name} is none of {shape.enum}"
        case "structure":
            for key, inner in value.items():
                yield from _limits(inner, shape.members[key], f"{name}.{key}")
        case "list":
            for index, inner in enumerate(value):
                yield from _limits(inner, shape.member, f"{name}[{index}]")
        case "map":
            for key, inner in value.items():
                yield from _limits(key, shape.key, f"the key {key} of {name}")
                yield from _limits(inner, shape.value, f"{name}.{key}")
