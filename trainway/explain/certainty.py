"""Decide which finding is certain: the last error of a process that ended, without a competing cause."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

from trainway.explain.continued import has_ended
from trainway.explain.evidence import Evidence, Log
from trainway.explain.finding import Confidence, Finding
from trainway.explain.matches import Quote
from trainway.explain.needles import matches_any
from trainway.explain.rules import Level, load_rules
from trainway.explain.suspects import looks_like_an_error


def with_doubt(findings: Sequence[Finding], unknown: Finding | None, evidence: Evidence) -> tuple[Finding, ...]:
    """Return the findings. At most the first finding keeps the confidence `certain`.

    Another cause, an error that matches no rule, or a later error in the same log changes the confidence to `likely`.
    An error that matches no rule comes first if it is later than an error that a shell survives.
    """
    causes = [each for each in findings if each.confidence is Confidence.CERTAIN]
    first = causes[0]
    gone_on = first.name in survived() and unknown is not None and not is_earlier(unknown.quote, first.quote)
    ordered = [unknown, *findings] if unknown and gone_on else list(findings)
    others = [*causes[1:], *([unknown] if unknown else [])]
    is_sure = (
        _stands_out(first, others) and not _has_later_error(first, evidence.logs) and _is_of_an_end(first, evidence)
    )
    doubtful = causes[1:] if is_sure else causes
    return tuple(replace(each, confidence=Confidence.LIKELY) if each in doubtful else each for each in ordered)


def _is_of_an_end(first: Finding, evidence: Evidence) -> bool:
    """Return whether the evidence shows that a process or the job ended."""
    log = next((each for each in evidence.logs if each.name == first.quote.name), None)
    return log is None or evidence.succeeded is False or bool(evidence.exits) or has_ended(log.text)


def _has_later_error(first: Finding, logs: Sequence[Log]) -> bool:
    """Return whether the log of the finding has a later error that is not a consequence of the finding."""
    log = next((each for each in logs if each.name == first.quote.name), None)
    if log is None or first.quote.line is None:
        return False
    rest = log.text.split("\n")[first.quote.line :]
    known = _consequences(first.name)
    return any(looks_like_an_error(line) and not matches_any(known, line) for line in rest)


@cache
def _consequences(name: str) -> tuple[str, ...]:
    """Return the patterns of a rule, and those of the lines that follow any failure."""
    follow = (Level.CONSEQUENCE, Level.ENDING, Level.HINT)
    return tuple(each for rule in load_rules() if rule.name == name or rule.level in follow for each in rule.log)


def _stands_out(first: Finding, others: Sequence[Finding]) -> bool:
    """Return whether each other cause is less specific than the first one, or a later cause of another process."""
    less = next((rule.instead_of for rule in load_rules() if rule.name == first.name), ())
    return all(
        each.name in less or (each.quote.speaker != first.quote.speaker and is_earlier(first.quote, each.quote))
        for each in others
    )


def is_earlier(one: Quote, other: Quote) -> bool:
    """Return whether one quote is earlier than another. Quotes of one log are compared by line, others by time."""
    if one.name == other.name and one.line and other.line:
        return one.line < other.line
    return one.time is not None and other.time is not None and one.time < other.time


@cache
def survived() -> frozenset[str]:
    """Return the names of the rules for errors after which a shell or a launcher continues."""
    return frozenset(rule.name for rule in load_rules() if rule.survived)
