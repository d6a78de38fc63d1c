"""Why an attempt failed, by what its run wrote: the rules of `trainway explain` decide."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from trainway.explain import Confidence, Evidence, Exit, Log, explain
from trainway.report.usage.spans import AttemptSpan

LOST = "the attempt wrote no end: its first node was lost, or the run was killed"
UNSAID = "the run wrote no reason"
_LONGEST = 200
# What the starter of a program adds to a cause.
_STATUS = re.compile(r" \(\S+ ended with exit status \d+\)$")


class FailureCause(NamedTuple):
    """A cause of failures. `rule` is the name of a rule of `trainway explain`, or None if no rule decides."""

    rule: str | None
    sentence: str


def cause_of(attempt: AttemptSpan) -> FailureCause | None:
    """Return the cause of a failed or lost attempt, and None for one that ended otherwise."""
    if attempt.ending == "lost":
        return FailureCause(None, LOST)
    return _cause(attempt.reason, attempt.exit_status) if attempt.ending == "failed" else None


# The nodes of many runs fail in one way.
@lru_cache(maxsize=1024)
def _cause(reason: str, status: int | None) -> FailureCause:
    if not reason:
        return FailureCause(None, UNSAID)
    exits = () if status is None else (Exit(status, "the program"),)
    findings = explain(Evidence((Log("the reason", reason),), exits=exits, succeeded=False))
    first = next((each for each in findings if not each.is_hint and each.confidence is not Confidence.UNKNOWN), None)
    if first is not None:
        return FailureCause(first.name, first.cause)
    # Addresses and numbers of processes differ between runs that fail in one way.
    return FailureCause(None, re.sub(r"0x[0-9a-f]+|\d{2,}", "#", _STATUS.sub("", reason))[:_LONGEST])
