"""A YAML file that remembers where each key and value stands, so that an error can point at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainway.spec import strict_yaml
from trainway.spec.problems import ABSENT, KeyPath, Problem, SpecError
from trainway.spec.strict_yaml import Position


@dataclass(frozen=True)
class Document:
    """The file's plain data, with the position of every key path in it."""

    file: Path
    data: dict[str, Any]
    positions: dict[KeyPath, Position]

    def nearest(self, key: KeyPath) -> Position:
        """Return the position of `key`, or of its closest ancestor if the file lacks it."""
        while key and key not in self.positions:
            key = key[:-1]
        return self.positions.get(key, (1, 1))

    def problem(self, key: KeyPath, reason: str, remedy: str, accept_as: str | None = None) -> Problem:
        """Return a problem at `key`, with its position and its value in the file."""
        line, column = self.nearest(key)
        value: Any = self.data
        for part in key:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                value = ABSENT
                break
        return Problem(self.file, line, column, key, value, reason, remedy, accept_as)


def read_document(file: Path) -> Document:
    """Parse a YAML file whose top level is a mapping.

    Raises SpecError for a file that is missing, unreadable, not YAML, not a mapping, or has a key twice, and for what
    `trainway.spec.strict_yaml` does not take.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise _unusable(file, "there is no such file", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, f"it cannot be read: {error}", "it must be a readable UTF-8 text file") from None
    try:
        reading = strict_yaml.read(text)
    except strict_yaml.UnreadableError as error:
        raise SpecError([_problem(file, error.fault)]) from None
    if not isinstance(reading.data, dict):
        raise _unusable(file, "its top level is not a mapping of keys", "start with keys such as `region:`")
    if reading.faults:
        raise SpecError(_problem(file, fault) for fault in reading.faults)
    return Document(file, reading.data, reading.positions)


def _problem(file: Path, fault: strict_yaml.YamlFault) -> Problem:
    (line, column), key, reason, remedy = fault
    return Problem(file, line, column, key, ABSENT, reason, remedy)


def _unusable(file: Path, reason: str, remedy: str) -> SpecError:
    return SpecError([Problem(file, 1, 1, (), ABSENT, reason, remedy)])
