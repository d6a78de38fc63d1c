"""Each fact about what AWS does by itself is shown by tests, or is a row of what is not proved."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.synthesis import ROOT

PAGE = ROOT / "docs/aws-side-effects.md"
KINDS = {"Creates", "Counts", "Locks", "Keeps"}
NOT_PROVED = [("not proved", "unproven.md")]


@cache
def functions(file: Path) -> frozenset[str]:
    """Return the names of the functions of a module."""
    module = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(each.name for each in module.body if isinstance(each, ast.FunctionDef))


def problems(cell: str, *, has_row: bool) -> Iterator[str]:
    """Yield what is wrong with the last cell of a row. `has_row`: docs/unproven.md has a row for its section."""
    links = re.findall(r"\[([^]]+)\]\(([^)]+)\)", cell)
    if ", ".join(f"[{text}]({target})" for text, target in links) != cell or not links:
        yield f"{cell}: name tests as [test_that_shows_it](../tests/test_file.py)"
    elif links == NOT_PROVED:
        if not has_row:
            yield f"{cell}: docs/unproven.md has no row for this section"
    else:
        for name, target in links:
            file = (PAGE.parent / target).resolve()
            if not (file.is_relative_to(ROOT / "tests") and file.name.startswith("test_") and file.is_file()):
                yield f"{name}: {target} is no file of tests"
            elif not name.startswith("test_") or name not in functions(file):
                yield f"{name}: {target} has no such test"
        if len(set(links)) < len(links):
            yield f"{cell}: a test stands twice"


def test_each_fact_is_shown_by_a_test_or_is_not_proved() -> None:
    unproven = (ROOT / "docs/unproven.md").read_text(encoding="utf-8")
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    assert len(sections) == 5
    for section in sections:
        rows = [line.strip("| ").split(" | ") for line in section.splitlines() if re.match(r"\| [A-Z]\w+ \|", line)]
        name = section.partition("\n")[0]
        assert {row[0] for row in rows} == KINDS, name
        for row in rows:
            assert len(row) == 4, row
            assert list(problems(row[-1], has_row=f"The rows of {name} in" in unproven)) == [], row


HERE = "../tests/test_aws_side_effects.py"
SHOWN = f"[test_a_row_that_names_no_test_is_found]({HERE})"


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (SHOWN, []),
        (f"[test_of_nobody]({HERE})", ["has no such test"]),
        (f"[problems]({HERE})", ["has no such test"]),
        (f"{SHOWN}, [test_of_nobody]({HERE})", ["has no such test"]),
        (f"{SHOWN}, {SHOWN}", ["stands twice"]),
        ("[test_of_nobody](../tests/test_nowhere.py)", ["no file of tests"]),
        ("[test_of_nobody](../tests/synthesis.py)", ["no file of tests"]),
        ("[not proved](unproven.md)", ["has no row"]),
        (f"[not proved](unproven.md), {SHOWN}", ["no file of tests"]),
        ("nothing", ["name tests as"]),
    ],
)
def test_a_row_that_names_no_test_is_found(cell: str, said: list[str]) -> None:
    found = list(problems(cell, has_row=False))
    assert len(found) == len(said) and all(words in each for words, each in zip(said, found, strict=True))
