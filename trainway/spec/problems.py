"""How a wrong file is described to the person who wrote it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainway.spec.errors import UsageError

KeyPath = tuple[str | int, ...]


class Absent:
    """Marks a problem about a key that is not in the file at all, where there is no value to show."""

    def __repr__(self) -> str:
        return "(absent)"


ABSENT = Absent()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is, what stands there, why it cannot be, and what would be right."""

    file: Path
    line: int
    column: int
    key: KeyPath
    value: Any
    reason: str
    remedy: str
    accept_as: str | None = None
    """The name of the rule that is broken, if a platform file can accept it."""

    def as_json(self) -> dict[str, Any]:
        """Return the problem for JSON.

        `value` is text as it would stand in the file, or None if the key is absent. `rule` can be accepted, or is None.
        """
        return {
            "file": str(self.file),
            "line": self.line,
            "column": self.column,
            "key": show_key(self.key),
            "value": None if isinstance(self.value, Absent) else show_value(self.value),
            "reason": self.reason,
            "remedy": self.remedy,
            "rule": self.accept_as,
        }

    def __str__(self) -> str:
        shown = "" if isinstance(self.value, Absent) else f" = {show_value(self.value)}"
        return (
            f"{self.file}:{self.line}:{self.column}: {show_key(self.key)}{shown}\n"
            f"    why: {self.reason}\n"
            f"    fix: {self.remedy}"
            + (f"\n    or: if AWS has changed that, accept the rule {self.accept_as}" if self.accept_as else "")
        )


class SpecError(UsageError):
    """A file that cannot be used, with every problem found in it, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        count = (
            f"{len(self.problems)} {'problem' if len(self.problems) == 1 else 'problems'} found; nothing was changed."
        )
        # The count comes last, where the eye ends.
        super().__init__("\n".join([*map(str, self.problems), count]))


def show_key(key: KeyPath) -> str:
    """Return a key as text, for example `node_groups[0].name`. The file as a whole is `(file)`."""
    shown = ""
    for part in key:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else part
    return shown or "(file)"


def show_value(value: Any) -> str:
    """Return a value as YAML would show it on one line. Long values are truncated."""
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."
