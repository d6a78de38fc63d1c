"""What is known about a job that ended: plain values, of which each target fills what it has."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

SIGNAL_BASE = 128
"""A process that signal n ended has the exit status 128 + n (POSIX shells, Kubernetes and Slurm count so)."""


@dataclass(frozen=True)
class Log:
    """What somebody wrote: a rank, all ranks of a node or of a pod, torchrun, or a node's kernel.

    `name` is where a person finds it: a path, or a pod. What the lines say of node and rank wins over what is said
    here. `rank` counts over all nodes, `local_rank` on its node; a job's `attempt`s count from 0, and a log that is not
    of one of them is of the newest.
    """

    name: str
    text: str
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None


@dataclass(frozen=True)
class JobEvent:
    """What an orchestrator says about something of the job: an event, a condition, a state.

    `source` is kubernetes, slurm, sagemaker or trainway, `reason` its own word, and `subject` what it speaks of: a pod,
    a node, a job.
    """

    source: str
    reason: str
    message: str = ""
    subject: str = ""
    node: str | None = None
    time: datetime | None = None


@dataclass(frozen=True)
class Exit:
    """How a process ended: its exit status, 128 + n where signal n ended it."""

    status: int
    name: str = ""
    node: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    attempt: int | None = None
    time: datetime | None = None


@dataclass(frozen=True)
class Evidence:
    """Everything that was gathered. `succeeded` is None where nothing gathered says how the job ended."""

    logs: tuple[Log, ...] = ()
    events: tuple[JobEvent, ...] = ()
    exits: tuple[Exit, ...] = ()
    succeeded: bool | None = None

    def __add__(self, other: Evidence) -> Evidence:
        """Both; of how the job ended the second knows more."""
        succeeded = self.succeeded if other.succeeded is None else other.succeeded
        return Evidence(
            self.logs + other.logs, self.events + other.events, self.exits + other.exits, succeeded=succeeded
        )


def signal_status(exit_code: int) -> int:
    """An exit status for what Python calls -n, a process that signal n ended."""
    return SIGNAL_BASE - exit_code if exit_code < 0 else exit_code
