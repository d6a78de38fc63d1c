"""The one error that a user can cause here."""

from __future__ import annotations

from pathlib import Path

from trainway.spec.errors import UsageError


class RunUnreadable(UsageError):
    """A run directory that cannot be turned into a report: what is wrong, where, why, and what would put it right."""

    def __init__(self, where: Path, what: str, why: str, remedy: str, line: int | None = None) -> None:
        self.where, self.line, self.what, self.why, self.remedy = where, line, what, why, remedy
        location = str(where) if line is None else f"{where}:{line}"
        super().__init__(f"{location}: {what}\n    why: {why}\n    fix: {remedy}")
