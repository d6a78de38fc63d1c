"""The last steps that a tracker was sent, kept in a file of the run for a tracker that cannot be asked."""

from __future__ import annotations

import json
from pathlib import Path

_FILE = "sent.json"


def read_marks(directory: Path) -> dict[str, int]:
    """Return the last step of each kind of row that was sent, or nothing at the first attempt."""
    try:
        found: dict[str, int] = json.loads((directory / _FILE).read_text())
    except (OSError, ValueError):
        return {}
    return found


def write_marks(directory: Path, sent: dict[str, int]) -> None:
    """Keep the last step of each kind of row that was sent."""
    written = directory / f"{_FILE}.new"
    written.write_text(json.dumps(sent))
    written.replace(directory / _FILE)
