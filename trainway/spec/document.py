"""A YAML file that remembers where each key and value stands, so that an error can point at it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainway.spec.problems import ABSENT, KeyPath, Problem, SpecError

Position = tuple[int, int]  # line and column, counted from 1


@dataclass(frozen=True)
class Document:
    """The file's plain data, with the position of every key path in it."""

    file: Path
    data: dict[str, Any]
    positions: dict[KeyPath, Position]

    def nearest(self, key: KeyPath) -> Position:
        """Where `key` stands; for a key that is not in the file, where its closest ancestor does."""
        while key and key not in self.positions:
            key = key[:-1]
        return self.positions.get(key, (1, 1))

    def problem(self, key: KeyPath, reason: str, remedy: str) -> Problem:
        """A problem at `key`, with its position and the value that stands there filled in."""
        line, column = self.nearest(key)
        value: Any = self.data
        for part in key:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                value = ABSENT
                break
        return Problem(self.file, line, column, key, value, reason, remedy)


def read_document(file: Path) -> Document:
    """Parses a YAML file whose top level is a mapping.

    Raises SpecError for a file that is missing, unreadable, not YAML, not a mapping, or has a key twice.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise _unusable(file, "there is no such file", "check the path") from None
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, f"it cannot be read: {error}", "it must be a readable UTF-8 text file") from None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if not isinstance(root, yaml.MappingNode):
            raise _unusable(file, "its top level is not a mapping of keys", "start with keys such as `region:`")
        positions: dict[KeyPath, Position] = {}
        repeated = list(_index(file, root, (), positions))
        if repeated:
            raise SpecError(repeated)
        return Document(file, loader.construct_document(root), positions)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        reason = f"it is not valid YAML: {error.problem or error.context}"
        raise SpecError([Problem(file, line, column, (), ABSENT, reason, "mend the syntax at this line")]) from None
    except RecursionError:
        raise _unusable(file, "an anchor contains itself", "write the values out") from None
    except yaml.YAMLError as error:
        raise _unusable(file, f"it is not valid YAML: {error}", "mend the syntax") from None
    finally:
        loader.dispose()


def _unusable(file: Path, reason: str, remedy: str) -> SpecError:
    return SpecError([Problem(file, 1, 1, (), ABSENT, reason, remedy)])


def _index(file: Path, node: yaml.Node, path: KeyPath, positions: dict[KeyPath, Position]) -> list[Problem]:
    """Fills `positions` below `node`; returns the keys that stand twice, which YAML would silently merge."""
    repeated: list[Problem] = []
    if isinstance(node, yaml.MappingNode):
        for key_node, value_node in node.value:
            key = (*path, key_node.value)
            mark = key_node.start_mark
            if key in positions:
                first = positions[key][0]
                reason = f"the key stands twice; the first is on line {first}, and only one of them would count"
                repeated.append(
                    Problem(file, mark.line + 1, mark.column + 1, key, ABSENT, reason, "keep one of the two")
                )
            positions[key] = (mark.line + 1, mark.column + 1)
            repeated += _index(file, value_node, key, positions)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            positions[(*path, index)] = (item.start_mark.line + 1, item.start_mark.column + 1)
            repeated += _index(file, item, (*path, index), positions)
    return repeated
