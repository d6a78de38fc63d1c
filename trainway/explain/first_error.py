"""Find the first error of the first rank that failed. It is shown if no rule matches the failure.

The last line of rank 0 is usually about another rank that ended before it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace

from trainway.explain.evidence import Evidence, Exit, Log
from trainway.explain.line_scores import highest_score
from trainway.explain.log_line_at import LogLine, bare, line_around, lines_near, log_line_at
from trainway.explain.suspects import tells_of_trouble

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
# An exception without its traceback, and an error of a program that has no tracebacks, at the end of a log.
_NAMED = re.compile(r"^(?:[\w]+\.)*\w*(?:Error|Exception): \S")
_PLAIN = re.compile(r"^(?:[\w./-]+: )?(?:[Ff]atal(?: error)?|FATAL|[Ee]rror|ERROR): \S|^\[(?:ERROR|FATAL)\] \S")
_OVERCOME = re.compile(r"(?i)retry|retri|ignor|warning|falling back|skipp")
_LAST_LINES = 40
# Lines before and after the first error of a process, of which one is quoted.
_AROUND = 30
_SIGTERM_STATUS = 143


def first_error(evidence: Evidence, explained: Predicate, year: int) -> LogLine | None:
    """Return the line that tells why the first process failed, near its first error, or None.

    Lines for which `explained` is true belong to a known failure. Lines that only look like an error count if the job
    is known to have failed. An error without a traceback counts at the end of a log, where nothing was done after it.
    """
    failed = evidence.succeeded is False or any(each.status for each in evidence.exits)
    found = [
        (log_line_at(log, position, year), position)
        for log in evidence.logs
        if (position := _error_in(log, explained, weak=failed)) is not None
    ]
    if not found:
        return None
    first = first_exit(evidence.exits)
    error, position = min(found, key=lambda each: _order(each[0], first))
    return _most_telling(error, position, explained, year)


def _most_telling(error: LogLine, position: int, explained: Predicate, year: int) -> LogLine:
    """Return the line with the highest score near an error. Lines of other ranks do not count."""
    log, speakers = error.log, ((error.rank, error.local_rank), (error.log.rank, error.log.local_rank))

    def may_be(line: str) -> bool:
        said = log_line_at(replace(log, text=line), 0, year)
        return (said.rank, said.local_rank) in speakers and tells_of_trouble(line) and not explained(line)

    near = lines_near(log.text, position, above=_AROUND, below=_AROUND)
    best = highest_score(log.text, near, may_be)
    return log_line_at(log, best.position, year) if best else error


def first_exit(exits: tuple[Exit, ...]) -> Exit | None:
    """Return the process that failed first: that which its launcher says, or else the earliest one.

    Processes that were told to stop do not count.
    """
    failed = [each for each in exits if each.status and each.status != _SIGTERM_STATUS]
    return min(failed, key=_exit_order, default=None)


def _exit_order(exit_: Exit) -> tuple[bool, float, float]:
    time = exit_.time.timestamp() if exit_.time else math.inf
    return not exit_.first, time, math.inf if exit_.rank is None else exit_.rank


def _order(log_line: LogLine, first: Exit | None) -> tuple[bool, float, float]:
    time = log_line.time.timestamp() if log_line.time else math.inf
    rank = next((float(each) for each in (log_line.rank, log_line.local_rank) if each is not None), math.inf)
    by_first = first is not None and is_of(log_line.rank, log_line.local_rank, log_line.node, first)
    return not by_first, time, rank


def is_of(rank: int | None, local_rank: int | None, node: str | None, exit_: Exit) -> bool:
    """Return whether a rank, or a local rank of a node, is the process of an exit status."""
    if exit_.rank is not None and rank is not None:
        return exit_.rank == rank
    same_node = exit_.node is None or node is None or exit_.node == node
    return same_node and exit_.local_rank is not None and exit_.local_rank == local_rank


def _error_in(log: Log, explained: Predicate, *, weak: bool) -> int | None:
    """Return the position of a log's first error: a traceback's end, a crash message, or a line that looks like one."""
    strong = [*_tracebacks(log.text, explained), *_lines(log.text, _SPOKEN, explained)]
    if strong:
        return min(strong)
    last = next(_last_errors(log.text, explained), None)
    return next(_lines(log.text, _WEAK, explained), last) if weak else last


def _last_errors(text: str, explained: Predicate) -> Iterator[int]:
    """Yield the positions of errors without a traceback in the last lines of a text."""
    end = len(text.rstrip())
    position = lines_near(text, end, above=_LAST_LINES).start
    while position < end:
        start, stop = line_around(text, position)
        line = bare(text[start:stop])
        is_error = (_NAMED.match(line) or _PLAIN.match(line)) and not _OVERCOME.search(line)
        if is_error and not explained(text[start:stop]):
            yield start
        position = stop + 1


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
