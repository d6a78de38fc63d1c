"""Read a Dockerfile: its instructions and its stages.

https://docs.docker.com/reference/dockerfile/ (read 2026-11-23)
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_HEREDOC: Final = re.compile(r"<<-?\s*([\"']?)([A-Za-z_]\w*)\1")
_WITH_HEREDOC: Final = ("RUN", "COPY", "ADD")


@dataclass(frozen=True)
class Instruction:
    """An instruction: its word in upper case, and what follows the word in one line, with here-documents below it.

    `lines` has the lines of the file by their numbers, without comments.
    """

    word: str
    text: str
    lines: tuple[tuple[int, str], ...]

    @property
    def line(self) -> int:
        """The number of the first line."""
        return self.lines[0][0]

    def line_with(self, pattern: str) -> int:
        """Return the number of the first line that the pattern matches, or of the first line."""
        return next((number for number, text in self.lines if re.search(pattern, text)), self.line)


@dataclass(frozen=True)
class Stage:
    """A stage: the image that it is built on, its name in lower case or nothing, and its instructions after FROM."""

    line: int
    image: str
    name: str
    instructions: tuple[Instruction, ...]


def instructions_of(text: str) -> Iterator[Instruction]:
    """Yield each instruction, without comments."""
    parts, lines, ends, body = list[str](), list[tuple[int, str]](), list[str](), list[str]()
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if ends:
            lines.append((number, line))
            if stripped == ends[0]:
                ends.pop(0)
            else:
                body.append(stripped)
            if ends:
                continue
        elif stripped and not stripped.startswith("#"):
            lines.append((number, line))
            parts.append(stripped.removesuffix("\\").strip())
            if stripped.endswith("\\"):
                continue
            instruction = " ".join(parts)
            if instruction.partition(" ")[0].upper() in _WITH_HEREDOC:
                ends = [found[2] for found in _HEREDOC.finditer(instruction)]
                if ends:
                    continue
        else:
            continue
        yield _instruction(parts, body, lines)
        parts, lines, body = [], [], []
    if parts:
        yield _instruction(parts, body, lines)


def _instruction(parts: list[str], body: list[str], lines: list[tuple[int, str]]) -> Instruction:
    word, _, rest = " ".join(parts).partition(" ")
    return Instruction(word.upper(), "\n".join([rest.strip(), *body]), tuple(lines))


def stages_of(text: str) -> tuple[tuple[Instruction, ...], tuple[Stage, ...]]:
    """Return the instructions before the first FROM, and the stages."""
    before, stages = list[Instruction](), list[tuple[Instruction, list[Instruction]]]()
    for each in instructions_of(text):
        if each.word == "FROM":
            stages.append((each, []))
        else:
            (stages[-1][1] if stages else before).append(each)
    return tuple(before), tuple(_stage(first, rest) for first, rest in stages)


def _stage(first: Instruction, rest: list[Instruction]) -> Stage:
    words = [word for word in first.text.split() if not word.startswith("--")]
    name = words[2] if len(words) > 2 and words[1].upper() == "AS" else ""
    return Stage(first.line, words[0] if words else "", name.lower(), tuple(rest))
