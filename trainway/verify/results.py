"""What a check says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"
    """What it looks at is not there, which is no fault: an instance without EFA, a job on one node."""


@dataclass(frozen=True)
class Result:
    """What one check says of one node, or of all together where `node` is None, in a sentence."""

    check: str
    node: str | None
    status: Status
    sentence: str


def exit_status(results: Iterable[Result]) -> int:
    """1 where a check failed, else 0."""
    return int(any(each.status is Status.FAILED for each in results))
