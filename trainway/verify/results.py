"""The result of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """The status of a check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    """The check does not apply, for example on an instance without EFA, or for a job on one node."""


@dataclass(frozen=True)
class Result:
    """The result of one check for one node, or for all nodes if `node` is None, in a sentence."""

    check: str
    node: str | None
    status: Status
    sentence: str


def exit_status(results: Iterable[Result]) -> int:
    """Return 1 if a check failed, otherwise 0."""
    return int(any(each.status is Status.FAILED for each in results))
