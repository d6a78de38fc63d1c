"""Find the words and phrases that docs/style.md lists as words to avoid: `python -m tests.prose` prints where they are.

It reads the sentences of the whole project: Markdown without code, and docstrings, messages, and comments of the code.
Tests contain planted mistakes and real logs, so only their docstrings and comments are read.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "style.md"
# The page itself quotes the phrases, and texts of others have their own words.
EXCLUDED = ("docs/style.md", "CODE_OF_CONDUCT.md", "LICENSE", "THIRD_PARTY_NOTICES.md")
# Files whose whole text is read: their comments and sentences have no common syntax.
WHOLE = (".sh", ".yaml", ".yml", ".toml", "Dockerfile", "Makefile")
SCRIPTS = (".ci/", "scripts/")

Sentence = tuple[int, str]
"""The number of a line, from 1, and text that begins there."""


@cache
def avoided() -> re.Pattern[str]:
    """Return a pattern that matches the phrases of the page's last table."""
    rows = PAGE.read_text(encoding="utf-8").partition("## Words to avoid")[2]
    cells = [cell for cell in re.findall(r"^\| [^|]+ \| ([^|]+) \|$", rows, re.MULTILINE) if cell != "Not"]
    # A sentence may be broken between the words of a phrase.
    phrases = [r"\s+".join(phrase.split()) for cell in cells for phrase in cell.split(", ")]
    return re.compile(rf"\b(?:{'|'.join(phrases)})\b", re.IGNORECASE)


def files() -> list[Path]:
    """Return the files of the project that have sentences."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    names = [name for name in listed.split("\0") if name and not name.startswith(EXCLUDED) and ".golden/" not in name]
    # Other files of the tests are real logs and documents.
    kinds = {name: (".md", ".py") if name.startswith("tests/") else (".md", ".py", *WHOLE) for name in names}
    chosen = [name for name, kind in kinds.items() if name.endswith(kind) or name.startswith(SCRIPTS)]
    return [ROOT / name for name in chosen if (ROOT / name).is_file()]


def sentences(file: Path, *, strings: bool) -> Iterator[Sentence]:
    """Yield the texts of a file. `strings` includes the strings of Python code that are no docstrings."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".md":
        yield from _of_markdown(text)
    elif file.suffix == ".py":
        yield from _of_python(text, strings=strings)
    else:
        yield 1, text


def found(file: Path, *, strings: bool = True) -> Iterator[str]:
    """Yield a line for each phrase to avoid in a file."""
    for first, text in sentences(file, strings=strings):
        for match in avoided().finditer(text):
            line = first + text.count("\n", 0, match.start())
            name = file.relative_to(ROOT) if file.is_relative_to(ROOT) else file
            yield f"{name}:{line}: {' '.join(match[0].split())}: docs/style.md has the word to use"


def _of_markdown(text: str) -> Iterator[Sentence]:
    from markdown_it import MarkdownIt

    for token in MarkdownIt("commonmark").enable("table").parse(text):
        if token.type == "inline" and token.map and token.children:
            # Code within a sentence is left out.
            parts = {"softbreak": "\n", "hardbreak": "\n"}
            texts = [each.content if each.type == "text" else parts.get(each.type, " ") for each in token.children]
            yield token.map[0] + 1, "".join(texts)


def _of_python(text: str, *, strings: bool) -> Iterator[Sentence]:
    yield from (
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    )
    tree = ast.parse(text)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and (strings or id(node) in docstrings):
            yield node.lineno, node.value


def main() -> None:
    """Print every phrase to avoid, and end with 1 if there is one."""
    lines = [line for file in files() for line in found(file, strings=not file.is_relative_to(ROOT / "tests"))]
    print("".join(f"{line}\n" for line in lines), end="")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
