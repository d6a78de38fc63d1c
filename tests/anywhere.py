"""Rules about where AWS has what, for tests of platforms that are about something else."""

from __future__ import annotations

ANYWHERE = [
    {"rule": rule, "because": "the test is about something else"}
    for rule in ("types-are-offered-in-the-zone", "types-are-sold-on-demand")
]
"""`accept` of a platform file that has instance types where AWS does not have them."""
