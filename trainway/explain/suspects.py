"""Find the line that looks most like an error, for logs in which no rule matches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainway.explain.continued import without_overcome
from trainway.explain.described import read_descriptions
from trainway.explain.evidence import Evidence, Log
from trainway.explain.line_scores import highest_score
from trainway.explain.log_line_at import bare, lines_near, log_line_at, year_of
from trainway.explain.matches import Quote, quote_log_line

# Words of errors of daemons and tools: first those that name a level, then those that say what did not work.
_SIGNS = (
    re.compile(
        r"(?<![\w/.=-])(?:[Ee]rror|ERROR|[Ff]atal|FATAL|CRITICAL|panic|E\d{4})(?![\w/.-])|\[Errno \d+\]"
        r"|(?:Error|Exception|Failure)\b|Call Trace|\bBUG:|core dumped"
    ),
    re.compile(
        r"(?i)\b(?:failed|failure|fails?|cannot|could ?n[o']t|can't|unable|denied|refused|rejected|timed out|timeout"
        r"|aborted?|killed|unreachable|unauthorized|forbidden|unhealthy|not ?ready|not found|no such|exceed(?:ed|s)"
        r"|evict(?:ed|ing)|insufficient|invalid|missing|lost|stuck|corrupt\w*|pending|backoff"
        r"|crashloopbackoff|oomkilled|not (?:available|supported|enabled|allowed|permitted)|d(?:id|o|oes)(?:n't| not)"
        r"|(?:is|are) not)\b"
    ),
)
_HARMLESS = re.compile(
    r"(?i)\bno errors?\b|\b0 errors?\b|deprecat|will be ignored|\(ignored\)|\bretrying\b|\boptional\b"
    r"|(?-i:\w+Warning: )"
)
_LAST_LINES = 60
_AROUND = 3


def suspect_line(evidence: Evidence) -> Quote | None:
    """Return the line near the end of a log that a person would quote. Skip errors that the program overcame.

    Harmless lines count if there are no others.
    """
    evidence = read_descriptions(evidence)
    year = year_of(tuple(log.text for log in evidence.logs))
    logs = without_overcome(evidence.logs)
    for may_be in (tells_of_trouble, _has_sign):
        found = [
            (best, log)
            for log in logs
            if (
                best := highest_score(log.text, lines_near(log.text, len(log.text.rstrip()), above=_LAST_LINES), may_be)
            )
        ]
        if found:
            best, log = max(found, key=lambda each: each[0].score)
            return quote_log_line(log_line_at(log, best.position, year))
    return None


def looks_like_an_error(line: str) -> bool:
    """Return whether a line has the log level or the class name of an error."""
    return bool(_SIGNS[0].search(line)) and not _HARMLESS.search(bare(line))


def tells_of_trouble(line: str) -> bool:
    """Return whether a line looks like an error, or has a word such as `failed` or `denied`."""
    return _has_sign(line) and not _HARMLESS.search(bare(line))


def lines_around(logs: Sequence[Log], quote: Quote) -> tuple[str, ...]:
    """Return the quoted line with up to three lines before and after it, with line numbers. Empty without a line."""
    log = next((log for log in logs if log.name == quote.name), None)
    if log is None or quote.line is None:
        return ()
    lines = log.text.split("\n")
    first, last = max(1, quote.line - _AROUND), min(len(lines), quote.line + _AROUND)
    return tuple(f"{number}: {lines[number - 1]}" for number in range(first, last + 1) if lines[number - 1].strip())


def _has_sign(line: str) -> bool:
    return any(sign.search(line) for sign in _SIGNS)
