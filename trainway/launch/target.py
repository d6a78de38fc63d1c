"""What a target does with a run that was submitted to it. Each is a module, or a package, with these functions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

Handle = Mapping[str, str]
"""How a target finds a run again; kept in the run's launch.json on the machine that submitted it."""


class Phase(StrEnum):
    """How far a run is."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    GONE = "gone"
    """The target does not know the run any more."""


@dataclass(frozen=True)
class State:
    """The phase of a run; `reason` is the target's own word for why, `nodes` the names of those it runs on."""

    phase: Phase
    reason: str = ""
    nodes: tuple[str, ...] = ()


class Target(Protocol):
    """The watching half of a target. All raise UsageError where it cannot be asked."""

    def state(self, handle: Handle) -> State:
        """How far the run is."""

    def logs(self, handle: Handle, *, follow: bool) -> Iterator[str]:
        """Lines of all nodes, each with `[node rank]` before it; with `follow` until the run has ended."""

    def stop(self, handle: Handle) -> None:
        """Tells the run to save itself and end; returns when it was told."""

    def shell(self, handle: Handle, node: int) -> Sequence[str]:
        """The command that opens a shell on a node of the run, by its index."""
