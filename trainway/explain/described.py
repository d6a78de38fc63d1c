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
from trainway.explain.kubernetes import (
    BEFORE_PULLED,
    BEFORE_SCHEDULED,
    BEFORE_STARTED,
    FINE_REASONS,
    holds_trouble,
)

# Borders of a terminal's table, and marks of a quotation.
_BORDER = r"^[\s│|>]*"
_AGE = r"(?:(?:\d+[smhdwy])+|<\w+>)(?: \(x\d+ over [^)]+\))?"
_ROW = re.compile(
    rf"{_BORDER}(?P<kind>Normal|Warning)\s+(?P<reason>\w+)\s+{_AGE}\s+(?P<source>\S.*?)\s{{2,}}(?P<message>\S.*?)[\s│|]*$"
)
_LISTED = re.compile(
    rf"{_BORDER}(?:\S+\s+)?{_AGE}\s+(?P<kind>Normal|Warning)\s+(?P<reason>\w+)\s+(?P<subject>[a-z]+/\S+)\s+(?P<message>\S.*?)[\s│|]*$"
)
# Other tables: an older kubectl writes times first, and other columns can be between. A report of client-go's recorder.
_ANY_ROW = re.compile(
    r"(?P<kind>\bNormal|\bWarning)\s+(?P<reason>[A-Z]\w+)\s+"
    rf"(?P<age>{_AGE}\s+)?(?:(?P<subject>[a-z]+/\S+)\s+)?(?P<message>\S.*?)[\s│|]*$"
)
# A time or an age before the kind of an event.
_TIME = re.compile(rf"(?:^|\s)(?:{_AGE}|\d{{4}}-\d\d-\d\dT[\d:]+Z?)\s")
_RECORDED = re.compile(
    r"Event\(v1\.ObjectReference\{Kind:\"(?P<about>\w+)\".*? Name:\"(?P<name>[^\"]+)\".*?\}\): "
    r"type: '(?P<kind>Normal|Warning)' reason: '(?P<reason>\w+)' (?P<message>.*)$"
)
# `kubectl get pods` and `kubectl get nodes`. The status can have spaces.
_POD = re.compile(
    rf"{_BORDER}(?:(?P<namespace>[\w-]+)\s+)?(?P<name>[\w.-]+)\s+\d+/\d+\s+"
    rf"(?P<status>[A-Za-z]\S*(?: \S+)*?)\s+\d+(?: \([^)]*\))?\s+{_AGE}\b"
)
_HEADER = re.compile(r"\bREADY\s+STATUS\s+RESTARTS\s+AGE\b")
_NODE = re.compile(rf"{_BORDER}(?P<name>[\w.-]+)\s+(?P<status>NotReady\S*)\s+\S+\s+{_AGE}\s+v\d")
# Beginnings of statuses of pods that are well, or that say nothing of the cause.
_QUIET = re.compile(
    r"Running|Completed|Pending|ContainerCreating|PodInitializing|Terminating|Succeeded|NotReady|Init:(?:\d|PodInit)"
    r"|(?:Init:)?(?:Error|CrashLoopBackOff)$|ExitCode:0$"
)
# The head of a pod that has ended.
_HEAD = re.compile(
    r"^Status:\s+Failed[ \t]*\nReason:\s+(?P<reason>\S+)[ \t]*\n(?:Message:[ \t]+(?P<message>.*)\n)?", re.MULTILINE
)
_MORE = re.compile(r"^\s*│ {2,}?(?P<message>\S.*?)[\s│]*$")
_NAME = re.compile(r"^Name:\s+(\S+)", re.MULTILINE)
_KIND = re.compile(r"^Kind:\s+(\S+)", re.MULTILINE)
_STATE = re.compile(
    r"^(?P<indent>[ \t]+)(?P<when>State|Last State):[ \t]+(?P<state>Waiting|Terminated|Running)[ \t]*\n"
    r"(?:(?P=indent)[ \t]+Reason:[ \t]+(?P<reason>\w+)[ \t]*\n)?"
    r"(?:(?P=indent)[ \t]+Message:[ \t]+(?P<message>.*)\n)?"
    r"(?:(?P=indent)[ \t]+Exit Code:[ \t]+(?P<code>\d+)[ \t]*\n)?",
    re.MULTILINE,
)
# A condition as `kubectl describe` prints it, or `kubectl get -o yaml`.
_CONDITION = re.compile(
    r"^(?P<indent> *)(?:- )?[Mm]essage: +(?P<message>.*)\n"
    r"(?:(?P=indent)(?:Observed Generation|observedGeneration):.*\n)?"
    r"(?P=indent)[Rr]eason: +(?P<reason>\S+)[ \t]*\n(?P=indent)[Ss]tatus: +[\"']?(?P<status>True|False)[\"']?[ \t]*\n"
    r"(?P=indent)[Tt]ype: +(?P<type>\w+)[ \t]*$",
    re.MULTILINE,
)
# Controllers try again what failed. The formats of controller-runtime's and of Karpenter's logger.
_CONTROLLER = re.compile(r"^[^\n]*(?:\bReconcil\w+ [^\n]*error|\"controller\": ?\")[^\n]*$", re.MULTILINE)
_RUNNING = re.compile(r"(?:Running|Completed|Succeeded)$")
# Statuses that are of a pod without a header of the table, too.
_FAILING = re.compile(
    r"(?:Init:)?(?:OutOf[\w./-]+|OOMKilled|ImagePullBackOff|ErrImagePull|Create\w+Error|UnexpectedAdmissionError)$"
)
# Reasons of Kueue's events that no longer apply once a workload has its quota.
BEFORE_ADMITTED = frozenset({"Pending", "Inadmissible"})
# Words of which every text that is read here has one. Long logs have none.
_SIGNS = (
    *("Warning", "Normal", "State:", "Reason:", "reason: ", "RESTARTS", "NotReady"),
    *("OutOf", "OOMKilled", "ImagePull", "CreateContainer", "CreatePod", "UnexpectedAdmission"),
)


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
    if _all_run(lines) or _last_started(rows):
        text = _CONTROLLER.sub("", text)
    subject = _subject(log.text)
    states = list(_states(log, subject))
    conditions = list(_conditions(log, subject))
    waiting = {event.reason for event in states}
    events = [
        JobEvent(
            *("kubernetes", row.reason, row.message, row.subject or subject),
            name=log.name,
            line=row.line,
            is_normal=row.kind == "Normal",
        )
        for row in rows
        if row.reason not in _got_over(rows, row.line) or row.reason in waiting
    ]
    told = (*_head(log, subject), *events, *states, *conditions, *_listed(lines, log.name))
    return replace(log, text=text), Evidence(events=told, exits=tuple(_exits(log, subject)))


def _head(log: Log, subject: str) -> Iterator[JobEvent]:
    for found in _HEAD.finditer(log.text):
        line = _line_of(log.text, found.start("reason"))
        yield JobEvent("kubernetes", found["reason"], found["message"] or "", subject, name=log.name, line=line)


def _listed(lines: Sequence[str], name: str) -> Iterator[JobEvent]:
    """Yield the last status of each pod and node in tables. Skip statuses that are normal."""
    last: dict[str, JobEvent] = {}
    below_header = False
    for number, line in enumerate(lines, start=1):
        below_header = below_header or bool(_HEADER.search(line))
        if (found := _POD.match(line)) and (below_header or _FAILING.match(found["status"])):
            subject, status = f"pod/{found['name']}", found["status"]
            event = JobEvent("kubernetes", status.removeprefix("Init:"), "", subject, name=name, line=number)
            key = f"{found['namespace']}/{found['name']}"
            last.pop(key, None)
            if not _QUIET.match(status):
                last[key] = event
        elif found := _NODE.match(line):
            subject = f"node/{found['name']}"
            last[subject] = JobEvent("kubernetes", "NodeNotReady", "", subject, found["name"], name=name, line=number)
    yield from last.values()


def _all_run(lines: Sequence[str]) -> bool:
    """Return whether the last status of every pod in tables is that of one that runs or has succeeded."""
    last: dict[str, str] = {}
    below_header = False
    for line in lines:
        below_header = below_header or bool(_HEADER.search(line))
        if below_header and (found := _POD.match(line)):
            last[f"{found['namespace']}/{found['name']}"] = found["status"]
    return bool(last) and all(_RUNNING.match(status) for status in last.values())


def _last_started(rows: Sequence[_Row]) -> bool:
    return bool(rows) and rows[-1].reason == "Started"


def _rows(lines: list[str]) -> list[_Row]:
    """Return the rows of tables of events, and empty their lines."""
    rows: list[_Row] = []
    continued = False
    for index, line in enumerate(lines):
        if found := _row_in(line):
            of = found.groupdict()
            subject = of.get("subject") or (f"{of['about'].lower()}/{of['name']}" if of.get("about") else "")
            rows.append(_Row(index + 1, found["kind"], found["reason"], found["message"], subject))
            continued = line.lstrip().startswith("│")
            lines[index] = ""
        elif continued and (more := _MORE.match(line)):
            rows[-1] = replace(rows[-1], message=f"{rows[-1].message} {more['message']}")
            lines[index] = ""
        else:
            continued = False
    return rows


def _row_in(line: str) -> re.Match[str] | None:
    """Return the match of a line that reports one event, or None."""
    if "Warning" not in line and "Normal" not in line:
        return None
    if "ObjectReference" in line:
        return _RECORDED.search(line.replace('\\"', '"'))
    if found := _ROW.match(line) or _LISTED.match(line):
        return found
    found = _ANY_ROW.search(line)
    if found and (found["age"] or found["subject"] or _TIME.search(line[: found.start()])):
        return found
    return None


def _got_over(rows: Sequence[_Row], line: int) -> frozenset[str]:
    """Return the reasons that no longer apply, because a later row says that the pod got over them."""
    later = {row.reason for row in rows if row.line > line and row.kind == "Normal"}
    scheduled = BEFORE_SCHEDULED if later & {"Scheduled", "Pulling", "Pulled", "Created", "Started"} else frozenset()
    admitted = BEFORE_ADMITTED if later & {"QuotaReserved", "Admitted"} else frozenset()
    ready = frozenset({"NodeNotReady"}) if "NodeReady" in later else frozenset()
    mounted = BEFORE_PULLED if later & {"Pulling", "Pulled"} else frozenset()
    return scheduled | admitted | ready | mounted | (BEFORE_STARTED if "Started" in later else frozenset())


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
        unscheduled = found["type"] == "PodScheduled" and found["status"] == "False"
        if unscheduled:
            line = _line_of(log.text, found.start("message"))
            yield JobEvent(
                "kubernetes", "FailedScheduling", found["message"].strip("'\""), subject, name=log.name, line=line
            )
        elif holds_trouble(found["type"], found["reason"], holds=found["status"] == "True"):
            line = _line_of(log.text, found.start("message"))
            yield JobEvent("kubernetes", found["reason"], found["message"], subject, name=log.name, line=line)


def _line_of(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
