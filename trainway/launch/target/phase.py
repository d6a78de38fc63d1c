"""The phases of a run."""

from __future__ import annotations

from enum import StrEnum


class Phase(StrEnum):
    """The state of a run, in a word that all targets share."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    GONE = "gone"
    """The target does not know the run any more."""


OVER = (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.GONE)
"""The phases of a run that has ended."""
