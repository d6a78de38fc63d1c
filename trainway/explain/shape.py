"""Reduce a document of another program to the members that a reader uses. Omit each value of an unexpected type.

A file of a user, or a response of another version of an API, can have text where a list is expected. Readers of a
reduced document need no type checks.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

DocumentShape = Any
"""A type, a function of the value, a mapping of members to shapes, or a list with the shape of each item.

The member "*" has the shape of every member.
"""


def shaped(value: Any, shape: DocumentShape) -> Any:
    """Return the value without the parts that do not have the shape, or None if the value itself does not."""
    if isinstance(shape, Mapping):
        if not isinstance(value, Mapping):
            return None
        found = {key: shaped(each, shape.get(key, shape.get("*"))) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not None}
    if isinstance(shape, list):
        items = [shaped(each, shape[0]) for each in value] if isinstance(value, list | tuple) else []
        return [each for each in items if each is not None]
    if shape is None:
        return None
    if isinstance(shape, type):
        return value if isinstance(value, shape) else None
    return shape(value)


# Larger numbers are milliseconds: as seconds, this number is a day in the year 5138.
_FIRST_MILLISECONDS = 10**11


def time(value: Any) -> datetime | None:
    """Return a time in UTC, or None if the value is not a time.

    boto3 gives a datetime. The AWS CLI writes text, or seconds since the epoch, and EventBridge milliseconds.
    """
    try:
        if isinstance(value, datetime):
            return value.astimezone(UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000 if value > _FIRST_MILLISECONDS else value, UTC)
        return datetime.fromisoformat(value).astimezone(UTC) if isinstance(value, str) else None
    except (ValueError, OverflowError, OSError):
        return None
