"""How long the stages of pipelines usually take, and when one that takes longer is ended.

A limit ends a stage that hangs. A stage that only takes longer than usual must not reach it.
"""

from __future__ import annotations

from dataclasses import dataclass

from trainway.spec.deployment.creation import durations

FACTOR = 2
"""A limit is this many times what a stage usually takes, most of which is an allowance already."""
LEAST_MINUTES = 15
"""No limit is shorter: the start of a build or one slow download can take longer than the work of a short stage."""


@dataclass(frozen=True)
class StageTimes:
    """The usual time and the time limit of one attempt of a stage, in minutes."""

    usual: int
    limit: int


def stage_times(*steps: str) -> StageTimes:
    """Return the times of a stage that does these steps of creation.yaml, one after the other.

    A script of a stage may itself wait for something. Its stage does not end before that wait does.
    """
    known = [durations()[step] for step in steps]
    usual = sum(each.minutes for each in known)
    waits = sum(each.waits for each in known)
    return StageTimes(usual, max(LEAST_MINUTES, FACTOR * usual, usual + waits))
