"""The evidence of a launched run for `trainway explain`, which the run's target provides."""

from __future__ import annotations

from pathlib import Path

from trainway.explain.evidence import Evidence
from trainway.launch.runs.run_directory import read_launch
from trainway.launch.target.known import target_named
from trainway.launch.target.protocol import Handle


def evidence_of(run: Path) -> Evidence:
    """Return the evidence of a run that was launched from this machine, by the directory of its launch.json.

    Raises UsageError if this version does not have the run's target, or the target cannot be asked for anything.
    """
    record = read_launch(run)
    return evidence_of_handle(record["target"], record["handle"])


def evidence_of_handle(target: str, handle: Handle) -> Evidence:
    """Return the evidence that a target has of a run, by the target's name and the run's handle."""
    return target_named(target, cannot="explained").evidence(handle)
