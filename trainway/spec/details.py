"""The details of a validation error of pydantic's, as they concern a file."""

from __future__ import annotations

from pydantic_core import ErrorDetails

from trainway.spec.document import Document
from trainway.spec.problems import KeyPath


def first_hand(details: list[ErrorDetails]) -> list[ErrorDetails]:
    """Return the details without lists that are too short only because pydantic does not count their wrong items."""

    def has_wrong_items(short: ErrorDetails) -> bool:
        length = len(short["loc"])
        return any(other["loc"][:length] == short["loc"] and len(other["loc"]) > length for other in details)

    return [each for each in details if each["type"] != "too_short" or not has_wrong_items(each)]


def key_path(document: Document, detail: ErrorDetails) -> KeyPath:
    """Return the key path of a location of pydantic's, which also names the branches of unions."""
    path: KeyPath = ()
    for index, part in enumerate(detail["loc"]):
        last = index == len(detail["loc"]) - 1
        if (*path, part) in document.positions or (last and detail["type"] == "missing"):
            path = (*path, part)
    return path
