"""A strict reading of AWS's API models, which come with botocore.

botocore itself checks names, types, required members, and minima before it sends a request. It leaves maxima, patterns,
enumerations, and unions of several members to the service.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import botocore.session
import regex
from botocore.model import ServiceModel, Shape
from botocore.validate import ParamValidator, ValidationErrors

# How Java, whose strings are UTF-16, spells the characters above U+FFFF.
SURROGATES = (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")


@functools.cache
def service_model(service: str) -> ServiceModel:
    """Return the API model of a service, for example `sagemaker`."""
    return botocore.session.get_session().get_service_model(service)


def problems(service: str, operation: str, parameters: dict[str, Any]) -> list[str]:
    """Return what the API's model has against the parameters of a request, one line per problem."""
    return shape_problems(parameters, service_model(service).operation_model(operation).input_shape)


def shape_problems(value: Any, shape: Shape | None) -> list[str]:
    """Return what a shape of an API's model has against a value; an operation without input takes no parameters."""
    if shape is None:
        return ["the operation takes no parameters"] if value else []
    report = botocores_own(ParamValidator(), value, shape)
    return [report.generate_report()] if report.has_errors() else list(limits(value, shape, "it"))


botocores_own = ParamValidator.validate


def strict_validate(self: ParamValidator, params: Any, shape: Shape) -> ValidationErrors:
    """Validate a request as botocore does, and raise AssertionError for what botocore leaves to the service.

    `tests/conftest.py` puts this in the place of botocore's own, so that every request of every test is read whole.
    """
    report = botocores_own(self, params, shape)
    if not report.has_errors() and (found := list(limits(params, shape, "it"))):
        raise AssertionError(f"AWS would refuse this {shape.name}: {'; '.join(found)}")
    return report


def limits(value: Any, shape: Any, name: str) -> Iterator[str]:
    """Yield what botocore does not check of a value that has the shape's names and types."""
    size = value if shape.type_name in ("integer", "long") else _length(value, shape)
    most, least = shape.metadata.get("max", size), shape.metadata.get("min", size)
    if size > most or size < least:
        yield f"{name} is {size}, not {shape.metadata.get('min')} to {shape.metadata.get('max')}"
    match shape.type_name:
        case "string":
            pattern = python_pattern(shape.metadata.get("pattern", ".*"))
            # Java's matches() reads the whole string, and that is what the services do.
            if not regex.fullmatch(pattern, value, regex.DOTALL):
                yield f"{name} is '{value}' and does not match {pattern}"
            if shape.enum and value not in shape.enum:
                yield f"{name} is '{value}', none of {', '.join(shape.enum)}"
        case "structure":
            for key, inner in value.items():
                yield from limits(inner, shape.members[key], f"{name}.{key}")
        case "list":
            for index, inner in enumerate(value):
                yield from limits(inner, shape.member, f"{name}[{index}]")
        case "map":
            for key, inner in value.items():
                yield from limits(key, shape.key, f"the key {key} of {name}")
                yield from limits(inner, shape.value, f"{name}.{key}")


def python_pattern(pattern: str) -> str:
    """Return a pattern of a model in the notation of `regex`, which knows Java's classes such as `\\p{L}`."""
    return pattern.replace(*SURROGATES)


def _length(value: Any, shape: Shape) -> int:
    return len(value) if shape.type_name in ("string", "list", "map") or isinstance(value, bytes) else 0
