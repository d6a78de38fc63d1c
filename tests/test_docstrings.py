"""A docstring is understood alone, as an editor shows it: without its neighbors, and without the name of its module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.synthesis import ROOT

FOLDERS = ("container", "delivery", "emulator", "lifecycle_scripts", "stacks", "training", "trainway")
FILES = [ROOT / "app.py", *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))]
# What begins like this says whose, of what, or as what, and leaves out what.
RIDDLES = (
    "Also", "As", "At", "Better", "By", "For", "From", "Here", "In", "It", "Its", "Less", "Likewise", "Nothing",
    "Of", "On", "That", "The same", "There", "These", "They", "This", "Those", "To", "What it", "What they",
    "When", "Which", "Who", "Whose", "With", "Without",
)  # fmt: skip
BEGINS = re.compile(rf"(?:{'|'.join(RIDDLES)})\b|[^\w\"`'\[(]|https?:")
FEWEST_WORDS = 3


def riddle(docstring: str) -> str | None:
    """Return why a docstring is not understood alone, or None."""
    if found := BEGINS.match(docstring):
        return f"it begins with {found[0]!r}"
    if len(docstring.split()) < FEWEST_WORDS:
        return f"it has fewer than {FEWEST_WORDS} words"
    return None


def riddles(file: Path) -> Iterator[str]:
    """Yield a line for each docstring of a file that is a riddle."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text and (why := riddle(text)):
                yield f"{file.relative_to(ROOT)}:{node.lineno}: {node.name}: {why}: {text.splitlines()[0]}"


@pytest.mark.parametrize("docstring", ["Of the pod.", "The same by name.", "Its size.", "A file.", "→ 5."])
def test_a_riddle_is_found(docstring: str) -> None:
    assert riddle(docstring)


@pytest.mark.parametrize("docstring", ["Return the pod's size.", "Office hours of people.", "`kubectl get` as JSON."])
def test_a_sentence_is_none(docstring: str) -> None:
    assert riddle(docstring) is None


@pytest.mark.parametrize("folder", ["app.py", *FOLDERS])
def test_docstrings_are_understood_alone(folder: str) -> None:
    found = [line for file in FILES if file.relative_to(ROOT).parts[0] == folder for line in riddles(file)]
    rule = "begin with a verb in the imperative or with a noun phrase that stands alone:"
    assert not found, "\n".join([rule, *found])
