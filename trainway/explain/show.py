"""Findings as text for people, and as a document for machines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.explain.findings import Confidence, Finding
from trainway.explain.matches import Quote

_LONGEST_QUOTE = 400


def as_text(findings: Sequence[Finding], *, succeeded: bool | None = None) -> str:
    """Return the first finding in full, and each other finding in one line. Without findings, how the job ended."""
    if not findings:
        return "it succeeded" if succeeded else "nothing that was gathered tells of a failure"
    first, *others = findings
    lines = [
        f"cause:    {first.cause}" + (f" ({first.confidence})" if first.confidence is not Confidence.CERTAIN else ""),
        f"evidence: {_where(first.quote, first.others)}",
        f"          {first.quote.text[:_LONGEST_QUOTE]}",
        f"fix:      {first.remedy}",
        *([f"source:   {first.source}"] if first.source else []),
    ]
    if others:
        lines += ["", "found as well:"]
        lines += [
            f"  {each.name} ({each.confidence}): {each.cause}, {_where(each.quote, each.others)}" for each in others
        ]
    return "\n".join(lines)


def as_document(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings in order, as plain values for JSON. Times are ISO 8601 in UTC."""
    return [
        {
            "name": each.name,
            "confidence": each.confidence.value,
            "cause": each.cause,
            "remedy": each.remedy,
            "source": each.source or None,
            "others": each.others,
            "evidence": {
                "file": each.quote.name,
                "line": each.quote.line,
                "text": each.quote.text,
                "rank": each.quote.rank,
                "local_rank": each.quote.local_rank,
                "node": each.quote.node,
                "attempt": each.quote.attempt,
                "time": each.quote.time.isoformat() if each.quote.time else None,
            },
        }
        for each in findings
    ]


def _where(quote: Quote, others: int) -> str:
    location = quote.name if quote.line is None else f"{quote.name}:{quote.line}"
    known = [quote.who] if quote.who != "the job" else []
    known += [f"{quote.time:%H:%M:%S}"] if quote.time else []
    known += [f"attempt {quote.attempt}"] if quote.attempt else []
    known += [f"{others} more say the same"] if others else []
    return f"{location} ({', '.join(known)})" if known else location
