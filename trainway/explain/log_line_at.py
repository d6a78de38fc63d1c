"""Find the rank, node, and time of a log line in the prefixes before its text.

Only the line itself is read here. A line without a time, as in a traceback, was written at or after the time of the
last line above it that has one. Times without a zone are UTC, because all nodes of a platform use UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from trainway.explain.evidence import Log

# Prefixes of log collectors: torchrun's --tee, PyTorch's traceback and logging, srun --label, this project's own
# `logs`, kubectl logs --timestamps, mpirun --tag-output.
_ISO = r"\d{4}-\d\d-\d\d[T _]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?"
_PREFIX = re.compile(
    r"(?:\[default\d+\]:|\[rank\d+\]: ?|\[\w[\w.-]* \d+\] |\d+: |\[\d+,\d+\]<std(?:out|err)>: ?"
    rf"|{_ISO} (?=\S)|<\d+>)*"
)
_RANK = re.compile(r"\[[Rr]ank ?(\d+)\]|\bRank (\d+)\]")
_LOCAL_RANK = re.compile(r"\[default(\d+)\]:")
# `[node rank]` of `trainway logs`. The rank is the local rank.
_NODE_AND_LOCAL_RANK = re.compile(r"^\[(\w[\w.-]*) (\d+)\] ")
# host:pid:tid [device] NCCL INFO (src/debug.cc of NCCL), and the prefix of kernel lines in the journal.
_NODES = (
    re.compile(r"([\w.-]+):\d+:\d+ \[\d+\] .*?\bNCCL "),
    re.compile(r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) kernel:"),
    re.compile(rf"^{_ISO} ([\w.-]+) kernel:"),
    re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON ([\w.-]+) "),
)

_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)[T _](\d\d:\d\d:\d\d)(?:[.,](\d+))?(Z|[+-]\d\d:?\d\d)?")
# E1121 10:12:13.123456. PyTorch's own logging writes the month with one digit.
_GLOG_TIME = re.compile(r"(?:^|[\s\[:])[IWEF](\d{1,2})(\d\d) (\d\d:\d\d:\d\d)(?:\.(\d+))?")
_SYSLOG_TIME = re.compile(r"^(?:\[[A-Z][a-z]{2} )?([A-Z][a-z]{2}) ([ \d]\d) (\d\d:\d\d:\d\d)(?: (\d{4})\])?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LINES_ABOVE = 400


@dataclass(frozen=True)
class LogLine:
    """A line of a log: its number, from 1, its text, and its rank, node, and time."""

    log: Log
    number: int
    text: str
    rank: int | None
    local_rank: int | None
    node: str | None
    time: datetime | None


def log_line_at(log: Log, position: int, year: int) -> LogLine:
    """Return the line of a log at a position in its text. `year` applies to times without a year."""
    start, end = line_around(log.text, position)
    line = log.text[start:end]
    rank, local_rank, node = log.rank, log.local_rank, log.node
    if labeled := _NODE_AND_LOCAL_RANK.match(line):
        node, local_rank = labeled[1], int(labeled[2])
    if found := _RANK.search(line):
        rank = int(found[1] or found[2])
    if found := _LOCAL_RANK.search(line):
        local_rank = int(found[1])
    for pattern in _NODES:
        if found := pattern.search(line):
            node = found[1]
            break
    return LogLine(
        log=log,
        number=log.text.count("\n", 0, start) + 1,
        text=bare(line),
        rank=rank,
        local_rank=local_rank,
        node=node,
        time=_time_above(log.text, end, year),
    )


def line_around(text: str, position: int) -> tuple[int, int]:
    """Return the start and the end of the line at a position."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    return start, len(text) if end < 0 else end


def lines_near(text: str, position: int, *, above: int, below: int = 0) -> slice:
    """Return the part of a text that has the line at a position, and up to some whole lines above and below it."""
    start, end = line_around(text, position)
    for _ in range(above):
        start = text.rfind("\n", 0, max(start - 1, 0)) + 1
    for _ in range(below):
        end = line_around(text, min(end + 1, len(text)))[1]
    return slice(start, end)


def bare(line: str) -> str:
    """Return a line without the prefixes of log collectors."""
    prefix = _PREFIX.match(line)
    return line[prefix.end() :].strip() if prefix else line.strip()


def year_of(texts: tuple[str, ...]) -> int:
    """Return the year of the first date that has one, or the current year."""
    for text in texts:
        if found := _ISO_TIME.search(text):
            return int(found[1][:4])
    return datetime.now(UTC).year


def time_in(line: str, year: int) -> datetime | None:
    """Return the time in a line, or None."""
    if found := _ISO_TIME.search(line):
        day, clock, fraction, zone = found.groups()
        zone = "+00:00" if zone in (None, "Z") else zone
        return _time(f"{day}T{clock}.{(fraction or '0')[:6]:0<6}{zone}")
    if found := _GLOG_TIME.search(line):
        month, day, clock, fraction = found.groups()
        return _time(f"{year}-{int(month):02}-{day}T{clock}.{(fraction or '0')[:6]:0<6}+00:00")
    if (found := _SYSLOG_TIME.match(line)) and found[1] in _MONTHS:
        month = _MONTHS.index(found[1]) + 1
        return _time(f"{found[4] or year}-{month:02}-{int(found[2]):02}T{found[3]}+00:00")
    return None


def _time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except ValueError:  # not a valid date
        return None


def _time_above(text: str, end: int, year: int) -> datetime | None:
    for _ in range(_LINES_ABOVE):
        start = text.rfind("\n", 0, end) + 1
        if time := time_in(text[start:end], year):
            return time
        if start == 0:
            return None
        end = start - 1
    return None
