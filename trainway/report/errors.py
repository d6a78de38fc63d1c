"""The one error of this package that a user can cause."""

from __future__ import annotations

from pathlib import Path

from trainway.spec.errors import UsageError


class RunUnreadable(UsageError):
    """A run directory that cannot be turned into a report. The message says what is wrong, where, why, and the fix."""

    def __init__(self, where: Path, what: str, why: str, remedy: str, line: int | None = None) -> None:
        self.where, self.line, self.what, self.why, self.remedy = where, line, what, why, remedy
        location = str(where) if line is None else f"{where}:{line}"
        super().__init__(f"{location}: {what}\n    why: {why}\n    fix: {remedy}")
