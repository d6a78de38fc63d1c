"""Evidence from Slurm: `sacct --parsable2`, `scontrol show job`, and `scontrol show node`, as events and exits.

https://slurm.schedmd.com/sacct.html, https://slurm.schedmd.com/scontrol.html (read 2026-11-21)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from trainway.explain.evidence import SIGNAL_BASE, Evidence, Exit, JobEvent

# `Comment=a word and another` ends where the next Key= begins.
_PAIR = re.compile(r"(\w[\w:]*)=(.*?)(?=\s+[A-Z]\w*(?::\w+)?=|\s*$)", re.MULTILINE)
_FINE = frozenset({"COMPLETED", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"})
# The first line names a job or a node, and each line has keys.
_RECORD = re.compile(r"^[ \t]*(?:JobId|NodeName)=\S+ [A-Z]\w*=.*(?:\n[ \t]*(?:[A-Z]\w*(?::\w+)?|OS)=.*)+", re.MULTILINE)
_NODE_TROUBLE = re.compile(r"\b(DOWN|DRAIN(?:ED|ING)?|FAIL(?:ING)?|NOT_RESPONDING)\b")


def slurm_evidence(text: str, name: str = "slurm") -> Evidence:
    """Return the evidence in the output of one of the three commands. Empty for any other text."""
    if re.match(r"\s*JobID\|", text):
        return _of_sacct(text, name)
    records = re.split(r"\n\s*(?=(?:JobId|NodeName)=)", text.strip())
    events = [event for record in records for event in _of_record(dict(_PAIR.findall(record)))]
    return Evidence(events=tuple(events))


def is_slurm(text: str) -> bool:
    """Return whether a text is the output of one of the three commands."""
    return bool(re.match(r"\s*(?:JobID\||JobId=|NodeName=)", text))


def read_records(evidence: Evidence) -> Evidence:
    """Return the evidence with the records of `scontrol show` in its logs as events, and without them in the logs."""
    logs, events = [], list(evidence.events)
    for log in evidence.logs:
        text = log.text
        for found in _RECORD.finditer(text) if "JobId=" in text or "NodeName=" in text else ():
            line = log.text.count("\n", 0, found.start()) + 1
            told = list(_of_record(dict(_PAIR.findall(found[0]))))
            events += [replace(event, name=log.name, line=line) for event in told]
            if told:
                text = text.replace(found[0], "\n" * found[0].count("\n"), 1)
        logs.append(replace(log, text=text))
    return replace(evidence, logs=tuple(logs), events=tuple(events))


def _of_sacct(text: str, name: str) -> Evidence:
    header, *rows = (line.split("|") for line in text.strip().splitlines())
    events: list[JobEvent] = []
    exits: list[Exit] = []
    states = set()
    for row in rows:
        of = dict(zip(header, row, strict=False))
        # Use the job's own line. Its steps repeat it, and end as their processes do.
        if "." not in of["JobID"]:
            states.add(of.get("State", ""))
            events += _state(of.get("State", ""), of.get("Reason", ""), f"job {of['JobID']}", of.get("End"))
        elif exit_ := _exit(of, name):
            exits.append(exit_)
    # A requeued job has one line, about its last start.
    ended = None if states & {"PENDING", "RUNNING"} else states == {"COMPLETED"}
    return Evidence((), tuple(events), tuple(exits), succeeded=ended)


def _of_record(of: Mapping[str, str]) -> Iterator[JobEvent]:
    if "JobId" in of:
        yield from _state(of.get("JobState", ""), of.get("Reason", ""), f"job {of['JobId']}", of.get("EndTime"))
    elif "NodeName" in of and (trouble := _NODE_TROUBLE.search(of.get("State", ""))):
        name = of["NodeName"]
        yield JobEvent("slurm", trouble[1], of.get("Reason", ""), f"node {name}", name)


def _state(state: str, reason: str, subject: str, time: str | None) -> Iterator[JobEvent]:
    word = state.split(" ")[0].rstrip("+")
    if word == "PENDING":
        # The scheduler has no reason until it has looked at the job.
        if reason not in ("", "None"):
            yield JobEvent("slurm", reason, state, subject)
    elif word and word not in _FINE:
        yield JobEvent(
            "slurm", word, state if reason in ("", "None") else f"{state}, {reason}", subject, time=_time(time)
        )


def _exit(of: Mapping[str, str], name: str) -> Exit | None:
    """Return the exit status or the signal of an exit code that Slurm writes as `status:signal`."""
    status, _, signal = of.get("ExitCode", "0:0").partition(":")
    number = SIGNAL_BASE + int(signal) if int(signal or 0) else int(status)
    if not number:
        return None
    return Exit(number, f"{name} step {of['JobID']}", node=of.get("NodeList") or None, time=_time(of.get("End")))


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:  # the time is `Unknown`
        return None
