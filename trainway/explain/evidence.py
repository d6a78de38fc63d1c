"""Evidence about a job that ended: plain values. Each target fills those that it has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

SIGNAL_BASE = 128
"""Exit status of a process that signal n ended, minus n. POSIX shells, Kubernetes, and Slurm use 128 + n."""


@dataclass(frozen=True)
class Log:
    """The output of a rank, of all ranks of a node or pod, of torchrun, or of a node's kernel.

    `name` is where a person finds it: a path, or a pod. Node and rank in the lines take precedence over the fields
    here. `rank` counts over all nodes, `local_rank` on its node. A job's `attempt`s count from 0. A log without an
    attempt belongs to the newest one.
    """

    name: str
    text: str
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class JobEvent:
    """A report of an orchestrator about a part of the job: an event, a condition, or a state.

    `source` is kubernetes, slurm, sagemaker, hyperpod, or trainway. `reason` is the source's own word. `subject` is
    the pod, node, or job that the report is about. `name` and `line` are where a person finds it, if it is part of
    a text. A normal one tells of no trouble by itself.
    """

    source: str
    reason: str
    message: str = ""
    subject: str = ""
    node: str | None = None
    time: datetime | None = None
    name: str = ""
    line: int | None = None
    is_normal: bool = False


@dataclass(frozen=True)
class Exit:
    """The end of a process: its exit status, which is 128 + n if signal n ended it.

    `first` is true if the launcher reports that this process failed before the others.
    """

    status: int
    name: str = ""
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    time: datetime | None = None
    first: bool = False


@dataclass(frozen=True)
class Evidence:
    """Everything that was gathered. `succeeded` is None if the evidence does not say how the job ended."""

    logs: tuple[Log, ...] = ()
    events: tuple[JobEvent, ...] = ()
    exits: tuple[Exit, ...] = ()
    succeeded: bool | None = None

    def __add__(self, other: Evidence) -> Evidence:
        """Combine two pieces of evidence. For `succeeded`, the second one takes precedence."""
        succeeded = self.succeeded if other.succeeded is None else other.succeeded
        return Evidence(
            self.logs + other.logs, self.events + other.events, self.exits + other.exits, succeeded=succeeded
        )


def signal_status(exit_code: int) -> int:
    """Return the exit status for an exit code of Python, which is -n for a process that signal n ended."""
    return SIGNAL_BASE - exit_code if exit_code < 0 else exit_code
