"""Find the line that looks most like an error, for logs in which no rule matches."""

from __future__ import annotations

import re
from collections.abc import Sequence

from trainway.explain.continued import without_overcome
from trainway.explain.described import read_descriptions
from trainway.explain.evidence import Evidence, Log
from trainway.explain.log_line_at import bare, line_around, log_line_at, year_of
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
        r"|crashloopbackoff|oomkilled|not (?:available|supported|enabled|allowed|permitted)|did(?:n't| not))\b"
    ),
)
_HARMLESS = re.compile(
    r"(?i)\bno errors?\b|\b0 errors?\b|deprecat|will be ignored|\(ignored\)|\bretrying\b|\boptional\b"
)
_NOTHING = re.compile(r"(?!)")
_LAST_LINES = 60
_AROUND = 3


def suspect_line(evidence: Evidence) -> Quote | None:
    """Return the first line near the end of a log that looks like an error. Skip errors that the program overcame.

    Lines that only warn count if there are no others.
    """
    evidence = read_descriptions(evidence)
    year = year_of(tuple(log.text for log in evidence.logs))
    logs = without_overcome(evidence.logs)
    for harmless in (_HARMLESS, _NOTHING):
        for sign in _SIGNS:
            for log in logs:
                position = _first(log.text, sign, harmless)
                if position is not None:
                    return quote_log_line(log_line_at(log, position, year))
    return None


def looks_like_an_error(line: str) -> bool:
    """Return whether a line has the log level or the class name of an error."""
    return bool(_SIGNS[0].search(line)) and not _HARMLESS.search(bare(line))


def tells_of_trouble(line: str) -> bool:
    """Return whether a line looks like an error, or has a word such as `failed` or `denied`."""
    return any(sign.search(line) for sign in _SIGNS) and not _HARMLESS.search(bare(line))


def lines_around(logs: Sequence[Log], quote: Quote) -> tuple[str, ...]:
    """Return the quoted line with up to three lines before and after it, with line numbers. Empty without a line."""
    log = next((log for log in logs if log.name == quote.name), None)
    if log is None or quote.line is None:
        return ()
    lines = log.text.split("\n")
    first, last = max(1, quote.line - _AROUND), min(len(lines), quote.line + _AROUND)
    return tuple(f"{number}: {lines[number - 1]}" for number in range(first, last + 1) if lines[number - 1].strip())


def _first(text: str, sign: re.Pattern[str], harmless: re.Pattern[str]) -> int | None:
    position = _start_of_last(text)
    while found := sign.search(text, position):
        start, end = line_around(text, found.start())
        if not harmless.search(bare(text[start:end])):
            return start
        position = end + 1
    return None


def _start_of_last(text: str) -> int:
    start = len(text.rstrip())
    for _ in range(_LAST_LINES):
        start = text.rfind("\n", 0, start)
        if start < 0:
            return 0
    return start + 1
