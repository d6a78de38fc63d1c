"""Evidence in the text that `kubectl describe` and `kubectl get events` print, which people paste instead of JSON.

Rows of the table of events become events. So do the states of containers, and the conditions of a Workload, a JobSet,
or a TrainJob. What was read is removed from the log, so that no rule for logs reads it again.
https://kubernetes.io/docs/reference/kubectl/generated/kubectl_describe/ (read 2026-11-25)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from trainway.explain.evidence import Evidence, Exit, JobEvent, Log
from trainway.explain.kubernetes import BEFORE_SCHEDULED, BEFORE_STARTED, FINE_REASONS, holds_trouble

# Borders of a terminal's table, and marks of a quotation.
_BORDER = r"^[\s│|>]*"
_AGE = r"(?:(?:\d+[smhdwy])+|<\w+>)(?: \(x\d+ over [^)]+\))?"
_ROW = re.compile(
    rf"{_BORDER}(?P<kind>Normal|Warning)\s+(?P<reason>\w+)\s+{_AGE}\s+(?P<source>\S.*?)\s{{2,}}(?P<message>\S.*?)[\s│|]*$"
)
_LISTED = re.compile(
    rf"{_BORDER}(?:\S+\s+)?{_AGE}\s+(?P<kind>Normal|Warning)\s+(?P<reason>\w+)\s+(?P<subject>[a-z]+/\S+)\s+(?P<message>\S.*?)[\s│|]*$"
)
_MORE = re.compile(r"^\s*│ {2,}?(?P<message>\S.*?)[\s│]*$")
_NAME = re.compile(r"^Name:\s+(\S+)", re.MULTILINE)
_KIND = re.compile(r"^Kind:\s+(\S+)", re.MULTILINE)
_STATE = re.compile(
    r"^(?P<indent> +)(?P<when>State|Last State): +(?P<state>Waiting|Terminated|Running)[ \t]*\n"
    r"(?:(?P=indent) +Reason: +(?P<reason>\w+)[ \t]*\n)?"
    r"(?:(?P=indent) +Message: +(?P<message>.*)\n)?"
    r"(?:(?P=indent) +Exit Code: +(?P<code>\d+)[ \t]*\n)?",
    re.MULTILINE,
)
_CONDITION = re.compile(
    r"^(?P<indent> +)Message: +(?P<message>.*)\n(?:(?P=indent)Observed Generation:.*\n)?"
    r"(?P=indent)Reason: +(?P<reason>\S+)[ \t]*\n(?P=indent)Status: +(?P<status>True|False)[ \t]*\n"
    r"(?P=indent)Type: +(?P<type>\w+)[ \t]*$",
    re.MULTILINE,
)
# Words of which every text that is read here has one. Long logs have none.
_SIGNS = ("Warning", "Normal", "State:", "Reason:")


@dataclass(frozen=True)
class _Row:
    line: int
    kind: str
    reason: str
    message: str
    subject: str


def read_descriptions(evidence: Evidence) -> Evidence:
    """Return the evidence with the Kubernetes events of its logs as events, and without them in the logs."""
    logs, told = [], Evidence()
    for log in evidence.logs:
        rest, more = _read(log)
        logs.append(rest)
        told += more
    return replace(evidence, logs=tuple(logs), events=evidence.events + told.events, exits=evidence.exits + told.exits)


def _read(log: Log) -> tuple[Log, Evidence]:
    if not any(sign in log.text for sign in _SIGNS):
        return log, Evidence()
    lines = log.text.split("\n")
    rows = _rows(lines)
    for pattern in (_STATE, _CONDITION):
        for found in pattern.finditer(log.text):
            first, last = _line_of(log.text, found.start()), _line_of(log.text, found.end() - 1)
            lines[first - 1 : last] = [""] * (last - first + 1)
    text = "\n".join(lines)
    subject = _subject(log.text)
    states = list(_states(log, subject))
    conditions = list(_conditions(log, subject))
    waiting = {event.reason for event in states}
    events = [
        JobEvent("kubernetes", row.reason, row.message, row.subject or subject, name=log.name, line=row.line)
        for row in rows
        if row.kind == "Warning" and (row.reason not in _got_over(rows, row.line) or row.reason in waiting)
    ]
    return replace(log, text=text), Evidence(events=(*events, *states, *conditions), exits=tuple(_exits(log, subject)))


def _rows(lines: list[str]) -> list[_Row]:
    """Return the rows of tables of events, and empty their lines."""
    rows: list[_Row] = []
    continued = False
    for index, line in enumerate(lines):
        if found := _ROW.match(line) or _LISTED.match(line):
            subject = found.groupdict().get("subject") or ""
            rows.append(_Row(index + 1, found["kind"], found["reason"], found["message"], subject))
            continued = line.lstrip().startswith("│")
            lines[index] = ""
        elif continued and (more := _MORE.match(line)):
            rows[-1] = replace(rows[-1], message=f"{rows[-1].message} {more['message']}")
            lines[index] = ""
        else:
            continued = False
    return rows


def _got_over(rows: Sequence[_Row], line: int) -> frozenset[str]:
    """Return the reasons that no longer apply, because a later row says that the pod got over them."""
    later = {row.reason for row in rows if row.line > line and row.kind == "Normal"}
    scheduled = BEFORE_SCHEDULED if later & {"Scheduled", "Pulling", "Pulled", "Created", "Started"} else frozenset()
    return scheduled | (BEFORE_STARTED if "Started" in later else frozenset())


def _subject(text: str) -> str:
    name, kind = _NAME.search(text), _KIND.search(text)
    return f"{kind[1].lower() if kind else 'pod'}/{name[1]}" if name else ""


def _states(log: Log, subject: str) -> Iterator[JobEvent]:
    for found in _STATE.finditer(log.text):
        reason = found["reason"]
        if found["state"] != "Running" and reason and reason not in FINE_REASONS:
            line = _line_of(log.text, found.start("reason"))
            yield JobEvent("kubernetes", reason, found["message"] or "", subject, name=log.name, line=line)


def _exits(log: Log, subject: str) -> Iterator[Exit]:
    for found in _STATE.finditer(log.text):
        if found["state"] == "Terminated" and int(found["code"] or 0):
            yield Exit(int(found["code"]), name=subject or log.name)


def _conditions(log: Log, subject: str) -> Iterator[JobEvent]:
    for found in _CONDITION.finditer(log.text):
        if holds_trouble(found["type"], found["reason"], holds=found["status"] == "True"):
            line = _line_of(log.text, found.start("message"))
            yield JobEvent("kubernetes", found["reason"], found["message"], subject, name=log.name, line=line)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
