"""Keep to the current attempt: what a job wrote before its last restart explains a failure that it has overcome.

A launcher's directories number attempts. A log that several attempts share has a line at which each begins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from trainway.explain.evidence import Evidence, Exit, Log
from trainway.explain.log_line_at import log_line_at
from trainway.explain.needles import matches_of

# training/observe prints the first line at each start. The second is of torch/distributed/elastic/agent/server/api.py.
_START = re.compile(r"^.*\bstart job=\S+ model=", re.MULTILINE)
_RESTART = re.compile(
    r"^.*Worker group (?:FAILED|\S+)\. \d+/\d+ attempts left; will restart worker group", re.MULTILINE
)


def current_attempt(evidence: Evidence, year: int) -> Evidence:
    """Return the evidence of the newest attempt alone. Lines keep their numbers.

    Evidence without an attempt and without a time belongs to the newest one.
    """
    newest = max((log.attempt or 0 for log in evidence.logs), default=0)
    logs = [log for log in evidence.logs if log.attempt in (None, newest)]
    began = _began(logs, year)
    return replace(
        evidence,
        logs=tuple(_since_restart(log) for log in logs),
        exits=tuple(each for each in evidence.exits if _is_current(each, newest, began)),
    )


def began_at(evidence: Evidence, year: int) -> datetime | None:
    """Return the time at which the newest attempt began, if a log of several attempts says so."""
    return _began(evidence.logs, year)


def _is_current(exit_: Exit, newest: int, began: datetime | None) -> bool:
    return exit_.attempt in (None, newest) and not (began and exit_.time and exit_.time < began)


def _restarted(text: str) -> int:
    """Return the position at which the newest attempt begins in a text, 0 if it has only one."""
    starts = [found.start() for found in matches_of(_START, text)]
    restarts = [found.end() for found in matches_of(_RESTART, text)]
    return max([*starts[1:], *restarts], default=0)


def _since_restart(log: Log) -> Log:
    position = _restarted(log.text)
    return replace(log, text="\n" * log.text.count("\n", 0, position) + log.text[position:]) if position else log


def _began(logs: Sequence[Log], year: int) -> datetime | None:
    times = [log_line_at(log, position, year).time for log in logs if (position := _restarted(log.text))]
    return max((time for time in times if time), default=None)
