"""Find the first error of the first rank that failed. It is shown if no rule matches the failure.

The last line of rank 0 is usually about another rank that ended before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from trainway.explain.evidence import Evidence, Exit, Log
from trainway.explain.log_line_at import LogLine, bare, line_around, log_line_at

Predicate = Callable[[str], bool]

_TRACEBACK = re.compile(r"Traceback \(most recent call last\)")
# The last line of a traceback: `package.SomeError: words`, or `SomeError` alone.
_EXCEPTION = re.compile(r"^[A-Za-z_][\w.]*(?:: \S.*|(?:Error|Exception|Interrupt|Exit|Failure|Timeout)$)")
# Messages of a process that crashes, and lines that only look like an error. Each pattern has two steps. The first is
# fast. The second sees the line without the prefixes of log collectors.
_SPOKEN = (
    re.compile(r"terminate called|panicked|Fatal Python error|F\d{3,4} |FATAL|core dumped"),
    re.compile(r"terminate called|thread '.*' panicked|Fatal Python error|^\[?F\d{3,4} |\bFATAL\b|core dumped"),
)
_WEAK = (
    re.compile(r"E\d{3,4} |[Ee]rror|ERROR|[Cc]ritical|CRITICAL|[Ff]ailed|FAILED|[Ee]xception"),
    re.compile(r"(?i)^\[?E\d{3,4} |(?<![\w/.-])(?:error|critical|failed|exception)(?![\w/.-])\s*[:\]\[]"),
)
_SIGTERM_STATUS = 143


def first_error(evidence: Evidence, explained: Predicate, year: int) -> LogLine | None:
    """Return the first line that is an error of a process itself, in the log of the first process that failed, or None.

    Lines for which `explained` is true belong to a known failure. Lines that only look like an error count if the job
    is known to have failed.
    """
    failed = evidence.succeeded is False or any(each.status for each in evidence.exits)
    found = [
        log_line_at(log, position, year)
        for log in evidence.logs
        if (position := _error_in(log, explained, weak=failed)) is not None
    ]
    if not found:
        return None
    first = first_exit(evidence.exits)
    newest = max((log.attempt or 0 for log in evidence.logs), default=0)
    return min(found, key=lambda log_line: _order(log_line, first, newest))


def first_exit(exits: tuple[Exit, ...]) -> Exit | None:
    """Return the process that failed first in the newest attempt. Processes that were told to stop do not count."""
    failed = [each for each in exits if each.status and each.status != _SIGTERM_STATUS]
    return min(failed, key=_exit_order, default=None)


def _exit_order(exit_: Exit) -> tuple[int, float, float]:
    time = exit_.time.timestamp() if exit_.time else math.inf
    return -(exit_.attempt or 0), time, math.inf if exit_.rank is None else exit_.rank


def _order(log_line: LogLine, first: Exit | None, newest: int) -> tuple[int, bool, float, float]:
    attempt = newest if log_line.log.attempt is None else log_line.log.attempt
    time = log_line.time.timestamp() if log_line.time else math.inf
    rank = next((float(each) for each in (log_line.rank, log_line.local_rank) if each is not None), math.inf)
    return -attempt, not _is_of(log_line, first), time, rank


def _is_of(log_line: LogLine, exit_: Exit | None) -> bool:
    if exit_ is None:
        return False
    if exit_.rank is not None and log_line.rank is not None:
        return exit_.rank == log_line.rank
    same_node = exit_.node is None or log_line.node is None or exit_.node == log_line.node
    return same_node and exit_.local_rank is not None and exit_.local_rank == log_line.local_rank


def _error_in(log: Log, explained: Predicate, *, weak: bool) -> int | None:
    """Return the position of a log's first error: a traceback's end, a crash message, or a line that looks like one."""
    strong = [*_tracebacks(log.text, explained), *_lines(log.text, _SPOKEN, explained)]
    if strong:
        return min(strong)
    return next(_lines(log.text, _WEAK, explained), None) if weak else None


def _tracebacks(text: str, explained: Predicate) -> Iterator[int]:
    """Yield the positions of the last lines of tracebacks."""
    for traceback in _TRACEBACK.finditer(text):
        _, end = line_around(text, traceback.start())
        for _ in range(400):
            start, end = line_around(text, min(end + 1, len(text)))
            line = bare(text[start:end])
            if start >= len(text) or _TRACEBACK.search(line):
                break
            unindented = line and not _indented(text[start:end])
            if unindented and _EXCEPTION.match(line):
                if not explained(text[start:end]):
                    yield start
                break


def _lines(text: str, patterns: tuple[re.Pattern[str], re.Pattern[str]], explained: Predicate) -> Iterator[int]:
    quick, sure = patterns
    position = 0
    while found := quick.search(text, position):
        start, end = line_around(text, found.start())
        if sure.search(bare(text[start:end])) and not explained(text[start:end]):
            yield start
        position = end + 1


def _indented(line: str) -> bool:
    """Return whether a line belongs to a traceback's frames, after any prefix of a log collector."""
    words = bare(line)
    return line[: line.find(words)].endswith("  ") if words else False
