"""Describe the cause of a failure in the report, as `trainway explain` prints it."""

from __future__ import annotations

from pathlib import Path

from trainway.explain import Confidence, evidence_of_run, explain
from trainway.spec.errors import UsageError


def why_it_failed(run: Path) -> str:
    """Return the cause and the remedy of a failed run, as sentences. Without a known cause, name `trainway explain`.

    The function reads only logs in the directory of the run. Commands are in backticks.
    """
    command = f"`trainway explain {run.resolve().name}`"
    try:
        findings = explain(evidence_of_run(run))
    except UsageError:
        findings = ()
    if not findings or findings[0].is_hint or findings[0].confidence is Confidence.UNKNOWN:
        return f"{command} says why."
    first = findings[0]
    sure = "" if first.confidence is Confidence.CERTAIN else f" ({first.confidence})"
    return f"Cause: {first.cause}{sure}. Fix: {first.remedy}. {command} shows the evidence."
