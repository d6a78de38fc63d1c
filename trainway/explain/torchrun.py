"""Evidence from launchers about the processes they started: torchrun's final summary, and what others print instead.

torch/distributed/elastic/multiprocessing/errors/__init__.py (_FAILURE_FORMAT_TEMPLATE) and api.py of PyTorch 2.13: its
log directory has <run id>_<random>/attempt_<n>/<local rank>/stdout.log and stderr.log.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

from trainway.explain.evidence import SIGNAL_BASE, Exit, Log, signal_status
from trainway.explain.needles import matches_of

_FAILURE = re.compile(
    r"(?:time +: (?P<time>\d{4}-\d\d-\d\d_\d\d:\d\d:\d\d)\s*\n"
    r".*?host +: (?P<host>\S+)\s*\n.*?)?"
    r"\brank\s*:?\s*(?P<rank>\d+) \(local[_ ]rank: (?P<local>\d+)\)\s*?(?:\n.*?)?"
    r"exitcode\s*: (?P<code>-?\d+)"
)
_FIRST, _OTHERS = "Root Cause", "Failures:"
# The line of an agent that has no summary, because the log ends before it.
_AGENT = re.compile(r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)")
# torch.multiprocessing.spawn, mpirun (orte-rmaps and PRRTE), and srun.
_OTHER_LAUNCHERS = (
    re.compile(r"[Pp]rocess (?P<rank>\d+) terminated with signal (?P<signal>SIG[A-Z]+)"),
    re.compile(r"process rank (?P<rank>\d+) with PID \d+ on node (?P<node>\S+) exited on signal (?P<number>\d+)"),
    re.compile(
        r"srun: error: (?P<node>\S+): tasks? (?P<rank>\d+)[^:\n]*: (?P<word>Killed|Segmentation fault|Bus error)"
    ),
)
_WORDS = {"Killed": signal.SIGKILL, "Segmentation fault": signal.SIGSEGV, "Bus error": signal.SIGBUS}


def exits_in(log: Log) -> Iterator[Exit]:
    """Yield the exit statuses of processes from a launcher's own lines in a log."""
    summary = list(_of_summary(log))
    yield from summary or _of_agents(log)
    for pattern in _OTHER_LAUNCHERS:
        for found in matches_of(pattern, log.text):
            words = found.groupdict()
            if number := _signal(words):
                rank = int(words["rank"])
                yield Exit(SIGNAL_BASE + number, log.name, words.get("node"), rank, attempt=log.attempt)


def _of_summary(log: Log) -> Iterator[Exit]:
    if "exitcode" not in log.text:
        return
    for found in _FAILURE.finditer(log.text):
        above = log.text[: found.start()]
        yield Exit(
            status=signal_status(int(found["code"])),
            name=log.name,
            node=found["host"],
            rank=int(found["rank"]),
            local_rank=int(found["local"]),
            attempt=log.attempt,
            time=_time(found["time"]),
            first=above.rfind(_FIRST) > above.rfind(_OTHERS),
        )


def _of_agents(log: Log) -> Iterator[Exit]:
    for found in _AGENT.finditer(log.text):
        status, local_rank = signal_status(int(found["code"])), int(found["local"])
        yield Exit(status, log.name, log.node, local_rank=local_rank, attempt=log.attempt, first=True)


def _time(text: str | None) -> datetime | None:
    return datetime.strptime(text, "%Y-%m-%d_%H:%M:%S").replace(tzinfo=UTC) if text else None


def _signal(words: dict[str, str | None]) -> int:
    """Return the number of a signal that a launcher names by its number, its name, or its word. 0 if it is unknown."""
    if number := words.get("number"):
        return int(number)
    name = words.get("signal")
    return int(_WORDS[words["word"] or ""]) if words.get("word") else int(getattr(signal, name or "", 0))
