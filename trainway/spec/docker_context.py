"""Which files of a directory a build of its Dockerfile can use: all but those that its .dockerignore leaves out.

https://docs.docker.com/build/concepts/context/#dockerignore-files (read 2026-11-23)
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class _Pattern:
    expression: re.Pattern[str]
    is_exception: bool


def context_files(directory: Path) -> Iterator[Path]:
    """Yield the files and links of a build context, in the order of their names.

    `Dockerfile.dockerignore` comes before `.dockerignore`. The Dockerfile itself is always there. Raises
    OSError, or UnicodeDecodeError if the list cannot be read.
    """
    names = (directory / "Dockerfile.dockerignore", directory / ".dockerignore")
    text = next((name.read_text(encoding="utf-8-sig") for name in names if name.is_file()), "")
    patterns = list(_patterns(text))
    found = []
    for parent, folders, files in os.walk(directory):
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        found += [Path(parent) / name for name in (*files, *links)]
    for file in sorted(found):
        relative = file.relative_to(directory).as_posix()
        if relative == "Dockerfile" or not _is_ignored(relative, patterns):
            yield file


def _is_ignored(path: str, patterns: Sequence[_Pattern]) -> bool:
    """Return whether the last pattern that matches the path, or a folder that it is in, leaves it out."""
    parts = path.split("/")
    prefixes = ["/".join(parts[: number + 1]) for number in range(len(parts))]
    ignored = False
    for pattern in patterns:
        if any(pattern.expression.fullmatch(prefix) for prefix in prefixes):
            ignored = not pattern.is_exception
    return ignored


def _patterns(text: str) -> Iterator[_Pattern]:
    for line in text.splitlines():
        if line.startswith("#") or not (stripped := line.strip()):
            continue
        is_exception = stripped.startswith("!")
        stripped = stripped.removeprefix("!").strip()
        cleaned = posixpath.normpath(stripped).lstrip("/") if stripped else ""
        if cleaned and cleaned != ".":
            yield _Pattern(re.compile(_expression(cleaned), re.DOTALL), is_exception)


def _expression(pattern: str) -> str:
    """Return the regular expression of a pattern of Go's filepath.Match, in which `**` stands for any folders."""
    result, at = "", 0
    while at < len(pattern):
        character = pattern[at]
        at += 1
        if pattern.startswith("**", at - 1):
            at += 1
            if pattern.startswith("/", at):
                at += 1
            result += ".*" if at >= len(pattern) else "(?:.*/)?"
        elif character == "*":
            result += "[^/]*"
        elif character == "?":
            result += "[^/]"
        elif character == "[" and "]" in pattern[at:]:
            end = pattern.index("]", at)
            inside = pattern[at:end].replace("\\", "\\\\")
            result += f"[{inside}]"
            at = end + 1
        elif character == "\\" and at < len(pattern):
            result += re.escape(pattern[at])
            at += 1
        else:
            result += re.escape(character)
    return result
