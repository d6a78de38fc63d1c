"""Show the results of the checks as a table for people, and as a document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainway.verify.results import Result, Status, exit_status

_MARKS = {Status.OK: "ok", Status.FAILED: "FAILED", Status.SKIPPED: "skipped"}


def as_table(results: Sequence[Result]) -> str:
    """Return a table with one line per result, failed ones last, and the number of failures below.

    Nodes with the same result of a check share a line.
    """
    shown = [(*_row(check, said), status) for check, said, status in _grouped(results)]
    shown.sort(key=lambda row: row[3] is Status.FAILED)
    widths = [max((len(row[column]) for row in shown), default=0) for column in range(2)]
    lines = [f"{row[0]:{widths[0]}}  {row[1]:{widths[1]}}  {_MARKS[row[3]]:7}  {row[2]}".rstrip() for row in shown]
    failed = sum(each.status is Status.FAILED for each in results)
    lines.append(
        f"{failed} of {len(results)} checks failed." if failed else f"all {len(results)} checks passed or skipped."
    )
    return "\n".join(lines)


def as_document(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results in order, and the exit status, as plain values for JSON."""
    return {
        "exit_status": exit_status(results),
        "results": [
            {"check": each.check, "node": each.node, "status": each.status.value, "sentence": each.sentence}
            for each in results
        ],
    }


def _grouped(results: Sequence[Result]) -> list[tuple[str, tuple[list[str], str], Status]]:
    same: dict[tuple[str, Status, str], list[str]] = {}
    for each in results:
        same.setdefault((each.check, each.status, each.sentence), []).append(each.node or "all nodes")
    return [(check, (nodes, sentence), status) for (check, status, sentence), nodes in same.items()]


def _row(check: str, said: tuple[list[str], str]) -> tuple[str, str, str]:
    nodes, sentence = said
    named = nodes[0] if len(nodes) == 1 else f"{nodes[0]} and {len(nodes) - 1} more"
    return check, named, sentence
