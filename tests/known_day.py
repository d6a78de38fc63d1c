"""A day on which the platform files of the tests are valid, because their Kubernetes versions have support."""

from __future__ import annotations

import re
from datetime import date

KNOWN_DAY = date(2026, 11, 23)
ON_KNOWN_DAY = ("--on", KNOWN_DAY.isoformat())
"""Options of `trainway check`."""


def on_known_day(command: str) -> str:
    """Return a command of a page in which each `trainway check` of a platform file is for the known day."""
    return re.sub(
        r"\btrainway check (?=\S+\.yaml\b)(?!examples/jobs/)", f"trainway check {' '.join(ON_KNOWN_DAY)} ", command
    )
