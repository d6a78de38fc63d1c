"""Findings as text for people, and as a document for programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

from trainway.preflight.finding import AccountFinding, FindingLevel
from trainway.spec.document import Document
from trainway.spec.problems import ABSENT, show_key, show_value

ORDER: Final = tuple(FindingLevel)


def exit_status(findings: Sequence[AccountFinding], *, strict: bool) -> int:
    """Return 1 if there is an error, or, if strict, a warning or something that was not checked. Otherwise 0."""
    bad = {FindingLevel.ERROR} | ({FindingLevel.WARNING, FindingLevel.NOT_CHECKED} if strict else set())
    return int(any(each.level in bad for each in findings))


def as_text(findings: Sequence[AccountFinding], document: Document | None, head: str) -> str:
    """Return all findings, the worst last, and below them their numbers. `head` says what was looked at."""
    shown = sorted(findings, key=lambda each: -ORDER.index(each.level))
    together = _not_checked_together(findings)
    counts = Counter(each.level for each in findings)
    numbers = [_number(counts[level], level) for level in ORDER if counts[level]]
    lines = [_lines(each, document) for each in shown if each not in chain(*together)]
    return "\n".join([*map(_lines_of_all, together), *lines, f"{head}: {', '.join(numbers) or 'no problems'}."])


def as_document(findings: Sequence[AccountFinding], document: Document | None, *, strict: bool) -> dict[str, Any]:
    """Return the findings as plain values for JSON, with the exit status. Without a key, the position is null."""
    return {
        "exit_status": exit_status(findings, strict=strict),
        "findings": [
            {
                "check": each.check,
                "level": each.level.value,
                "what": each.what,
                **_position(each, document),
                "why": each.why,
                "fix": each.fix,
            }
            for each in sorted(findings, key=lambda each: ORDER.index(each.level))
        ],
    }


def _not_checked_together(findings: Sequence[AccountFinding]) -> list[list[AccountFinding]]:
    """Group the skipped checks by reason and remedy. Return the groups with more than one check."""
    by_reason = defaultdict[tuple[str, str], list[AccountFinding]](list)
    for each in findings:
        if each.level is FindingLevel.NOT_CHECKED:
            by_reason[each.why, each.fix].append(each)
    return [each for each in by_reason.values() if len(each) > 1]


def _lines_of_all(findings: Sequence[AccountFinding]) -> str:
    """Format a group of skipped checks as one entry."""
    first = findings[0]
    names = ", ".join(sorted({each.check for each in findings}))
    return f"{first.level}: {len(findings)} checks ({names})\n    why: {first.why}\n    fix: {first.fix}"


def _number(count: int, level: FindingLevel) -> str:
    return f"{count} {level}" if level is FindingLevel.NOT_CHECKED or count == 1 else f"{count} {level}s"


def _position(each: AccountFinding, document: Document | None) -> dict[str, Any]:
    if each.key is None or document is None:
        return {"file": None, "line": None, "column": None, "key": None}
    line, column = document.nearest(each.key)
    return {"file": str(document.file), "line": line, "column": column, "key": show_key(each.key)}


def _lines(each: AccountFinding, document: Document | None) -> str:
    where = ""
    if each.key is not None and document is not None:
        problem = document.problem(each.key, each.why, each.fix)
        value = "" if problem.value is ABSENT else f" = {show_value(problem.value)}"
        where = f"\n    at: {document.file}:{problem.line}:{problem.column}: {show_key(each.key)}{value}"
    return f"{each.level}: {each.what} ({each.check}){where}\n    why: {each.why}\n    fix: {each.fix}"
