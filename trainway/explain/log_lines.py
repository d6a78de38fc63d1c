"""Evidence from the lines that a target's `logs` prints, `[node rank] line`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from trainway.explain.evidence import Evidence, Log
from trainway.explain.gather import with_exits

# `[node rank] line` of a target's logs. The rank is the local rank, or `-` without one.
_MARKED = re.compile(r"^\[(?P<node>\S+)(?: (?P<rank>\d+|-))?\] ?(?P<line>.*)$")


def parts_of_line(line: str) -> dict[str, str | int | None]:
    """Return the node, the rank on it, and the text of a line of a target's `logs`. The first two may be None."""
    found = _MARKED.match(line)
    if found is None:
        return {"node": None, "rank": None, "text": line}
    rank = found["rank"]
    return {"node": found["node"], "rank": int(rank) if rank and rank != "-" else None, "text": found["line"]}


def evidence_of_lines(lines: Iterable[str]) -> Evidence:
    """Return the lines of a target's `logs` as logs of ranks, with the exit statuses that torchrun tells in them."""
    return with_exits(logs_of_lines(lines))


def logs_of_lines(lines: Iterable[str]) -> tuple[Log, ...]:
    """Return the lines of a target's `logs` as one log for each rank of each node."""
    texts: dict[tuple[str, str | None], list[str]] = {}
    for line in lines:
        found = _MARKED.match(line)
        key = (found["node"], found["rank"]) if found else ("", None)
        texts.setdefault(key, []).append(found["line"] if found else line)
    return tuple(_log_of(node, rank, words) for (node, rank), words in texts.items())


def _log_of(node: str, rank: str | None, lines: list[str]) -> Log:
    local_rank = int(rank) if rank and rank.isdigit() else None
    named = f"node {node}" if node.isdigit() else node or None
    name = " ".join(part for part in ("logs of", named, f"rank {rank}" if local_rank is not None else None) if part)
    return Log(name, "\n".join(lines) + "\n", node=named, local_rank=local_rank)
