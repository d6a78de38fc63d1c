"""A match of a rule in the evidence, and the order of matches by credibility."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from trainway.explain.evidence import Exit, JobEvent
from trainway.explain.log_line_at import LogLine
from trainway.explain.rules import Level


@dataclass(frozen=True)
class Quote:
    """The location of a match: a line of a log, an event, or an exit status, with its rank and node.

    `line` counts from 1.
    """

    name: str
    text: str
    line: int | None = None
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None
    attempt: int | None = None
    time: datetime | None = None

    @property
    def who(self) -> str:
        """Return the rank and the node in words, or what is known of them."""
        if self.rank is not None:
            named = f"rank {self.rank}"
        elif self.local_rank is not None:
            named = f"local rank {self.local_rank}"
        else:
            return self.node or "the job"
        return f"{named} on {self.node}" if self.node else named

    @property
    def speaker(self) -> tuple[str, int | None, int | None]:
        """Return a key of the process that wrote the quote. Quotes of one process have equal keys."""
        if self.rank is not None:
            return "", self.rank, None
        return self.node or self.name, None, self.local_rank


@dataclass(frozen=True)
class Match:
    """A rule that matched, with its sentences filled in."""

    name: str
    level: Level
    cause: str
    remedy: str
    source: str
    quote: Quote
    precedence: int = 0


def quote_log_line(log_line: LogLine) -> Quote:
    """Return the quote of a line of a log."""
    log = log_line.log
    return Quote(
        log.name,
        log_line.text,
        log_line.number,
        log_line.rank,
        log_line.local_rank,
        log_line.node,
        log.attempt,
        log_line.time,
    )


def quote_of_event(event: JobEvent) -> Quote:
    """Return the quote of an event, in one line."""
    said = " ".join(f"{event.reason}: {event.message}".split()).removesuffix(":")
    name = " ".join(part for part in (event.source, event.subject) if part)
    return Quote(event.name or name, said, event.line, node=event.node, time=event.time)


def quote_of_exit(exit_: Exit) -> Quote:
    """Return the quote of an exit status, in words."""
    return Quote(
        exit_.name or "exit status",
        f"exit status {exit_.status}",
        rank=exit_.rank,
        local_rank=exit_.local_rank,
        node=exit_.node,
        attempt=exit_.attempt,
        time=exit_.time,
    )


def fill(sentence: str, words: Mapping[str, str | None]) -> str:
    """Return a rule's sentence with its {names} filled in.

    A [part in brackets] is left out if one of its names has no value.
    """

    def part(found: re.Match[str]) -> str:
        names = re.findall(r"\{(\w+)\}", found[1])
        return found[1] if all(words.get(name) for name in names) else ""

    kept = re.sub(r"\[([^\[\]]*)\]", part, sentence)
    return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1]) or "", kept).strip()


def believed(match: Match, *, of_first: bool) -> tuple[bool, bool, int, float, float, float, int]:
    """Return the sort key of a match: causes first, then what the process wrote that failed first, if that is known.

    After that, the strongest level, the earliest time, the lowest rank, and the earliest line. The first match usually
    caused the others.
    """
    quote = match.quote
    is_cause = match.level is Level.CAUSE
    time = quote.time.timestamp() if quote.time else math.inf
    rank = next((float(each) for each in (quote.rank, quote.local_rank) if each is not None), math.inf)
    line = float(quote.line or 0)
    return not is_cause, not (is_cause or of_first), match.level.value, time, rank, line, -match.precedence
