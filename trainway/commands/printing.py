"""Text for people in the width of their terminal, and `--json`, which prints data for programs.

What a program reads through a pipe is left as it is.
"""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from typing import Annotated, TextIO

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_COLUMN = re.compile(r" {2,}(?=\S)")
_COMMAND = re.compile(r"`[^`]*`")
_JOINED = "\N{NO-BREAK SPACE}"
_LEAST = 20


def show(text: str, *, to: TextIO | None = None) -> None:
    """Print text, with the lines that are too long for the terminal broken between words."""
    stream = to or sys.stdout
    width = terminal_width(stream)
    print(fitted(text, width) if width else text, file=stream)


def terminal_width(stream: TextIO) -> int | None:
    """Return the columns of a terminal, or those that COLUMNS says of it. None for a file or a pipe."""
    return max(_LEAST, shutil.get_terminal_size().columns) if stream.isatty() else None


def fitted(text: str, width: int) -> str:
    """Return text whose lines have at most this many columns, except where one word or one command is longer."""
    return "\n".join(_fitted_line(line, width) for line in text.split("\n"))


def _fitted_line(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    own = len(line) - len(line.lstrip())
    columns = [found.end() for found in _COLUMN.finditer(line) if found.end() <= width // 2]
    # The rest of a row stands below its last column, if that leaves half of the width.
    indent = min(max([own + 4, *columns[-1:]]), width // 2)
    joined = _COMMAND.sub(lambda found: found[0].replace(" ", _JOINED), line)
    wrapped = textwrap.fill(
        joined, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapped.replace(_JOINED, " ")
