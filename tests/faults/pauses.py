"""The time for which a run stands still, from the times of its steps in metrics.jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

METRICS = "metrics.jsonl"


def longest_pause(metrics: Path) -> float | None:
    """Return the longest time in seconds between two new steps, or None for less than two.

    A step that a run repeats after a resume is not new. The times are those of the host of rank 0, whose clock may jump
    back, so a time before that of the step before it is no pause.
    """
    times = list(_times_of_new_steps(metrics.read_text(encoding="utf-8").splitlines()))
    return max((after - before for before, after in pairwise(times)), default=None)


def _times_of_new_steps(lines: Iterable[str]) -> Iterable[float]:
    furthest = 0
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            # A host that loses power leaves a part of a line.
            continue
        if event["event"] == "step" and event["step"] > furthest:
            furthest = event["step"]
            yield event["time"]
