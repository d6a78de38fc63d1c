"""Refuse parameters that the model of an API forbids, and that botocore and moto accept.

botocore checks names, types, required members, and minima before it sends a request. It leaves maxima, patterns,
enumerations, and unions of several members to the service.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import regex

from emulator.api_calls import ApiCall

# How Java, whose strings are UTF-16, spells the characters above U+FFFF.
SURROGATES = (r"\uD800\uDC00-\uDBFF\uDFFF", r"\U00010000-\U0010FFFF")


def refusal(call: ApiCall) -> tuple[int, bytes, str] | None:
    """Return the answer to a call that is beyond a limit of its API, or None for every other call."""
    if call.service == "s3":
        return None
    try:
        parameters, shape = call.parameters(), call.input_shape()
    except Exception:
        # What cannot be read by the model, moto refuses in words of its own.
        return None
    problems = list(limits(parameters, shape, "it")) if shape is not None else []
    count = f"{len(problems)} validation error{'s' if len(problems) > 1 else ''} detected"
    return call.error("ValidationException", f"{count}: {'; '.join(problems)}") if problems else None


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


def _length(value: Any, shape: Any) -> int:
    return len(value) if shape.type_name in ("string", "list", "map") or isinstance(value, bytes) else 0
