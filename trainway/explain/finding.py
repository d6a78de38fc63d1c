"""Define a finding: the cause of a failure that one rule recognizes, with a confidence."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from trainway.explain.matches import Quote


class Confidence(StrEnum):
    """The credibility of a finding."""

    CERTAIN = "certain"
    """The evidence itself states the cause."""
    LIKELY = "likely"
    """The evidence states what happened. The cause may be elsewhere."""
    UNKNOWN = "unknown"
    """No rule matches. The finding is the first error of the first rank that failed."""


@dataclass(frozen=True)
class Finding:
    """The cause of a failure as one rule knows it: the cause and the remedy in words, the quote, and the rule's source.

    `others` counts the other processes whose output matches the same rule. A hint is worth a change, and does not
    fail a job.
    """

    name: str
    confidence: Confidence
    cause: str
    remedy: str
    source: str
    quote: Quote
    others: int = 0
    is_hint: bool = False
