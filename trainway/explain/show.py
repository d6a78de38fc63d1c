"""Findings as text for people, and as a document for machines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from trainway.explain.evidence import Evidence
from trainway.explain.finding import Confidence, Finding
from trainway.explain.matches import Quote
from trainway.explain.suspects import lines_around, suspect_line

_LONGEST_QUOTE = 400


def as_text(findings: Sequence[Finding], evidence: Evidence | None = None) -> str:
    """Return the first finding in full, and each other finding in one line.

    An error that no rule knows is shown with the lines around it. Without findings, return how the job ended, what was
    looked at, and the line that looks most like an error.
    """
    evidence = evidence or Evidence()
    if not findings:
        return "it succeeded" if evidence.succeeded else "\n".join(_without_findings(evidence))
    first, *others = findings
    doubt = "" if first.confidence is Confidence.CERTAIN or first.is_hint else f" ({first.confidence})"
    lines = [
        *(["nothing that was gathered tells of a failure; a change that is worth it:"] if first.is_hint else []),
        f"{'hint:  ' if first.is_hint else 'cause: '}   {first.cause}{doubt}",
        f"evidence: {_where(first.quote, first.others)}",
        *_quoted(first, evidence),
        f"fix:      {first.remedy}",
        *([f"source:   {first.source}"] if first.source else []),
    ]
    if others:
        lines += ["", "found as well:"]
        lines += [
            f"  {each.name} ({each.confidence}): {each.cause}, {_where(each.quote, each.others)}" for each in others
        ]
    return "\n".join(lines)


def _without_findings(evidence: Evidence) -> Iterator[str]:
    counts = ((len(evidence.logs), "log"), (len(evidence.events), "event"), (len(evidence.exits), "exit status"))
    looked = ", ".join(
        f"{count} {word}{'' if count == 1 else 'es' if word.endswith('s') else 's'}" for count, word in counts if count
    )
    yield "nothing that was gathered tells of a failure" + (f" ({looked})" if looked else "")
    if quote := suspect_line(evidence):
        yield f"the line that looks most like an error: {_where(quote, 0)}"
        yield from _indented(lines_around(evidence.logs, quote))


def _quoted(first: Finding, evidence: Evidence) -> Sequence[str]:
    around = lines_around(evidence.logs, first.quote) if first.confidence is Confidence.UNKNOWN else ()
    return _indented(around or (first.quote.text,))


def _indented(lines: Sequence[str]) -> Sequence[str]:
    return [f"          {line[:_LONGEST_QUOTE]}" for line in lines]


def as_document(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    """Return the findings in order, as plain values for JSON. Times are ISO 8601 in UTC."""
    return [
        {
            "name": each.name,
            "confidence": each.confidence.value,
            "is_hint": each.is_hint,
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
