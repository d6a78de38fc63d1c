"""docs/scope.md says of each command and of each key of the platform file why it is there."""

from __future__ import annotations

import re

import typer

from tests.synthesis import ROOT
from trainway.cli import EXTENSIONS, app
from trainway.spec.platform import Platform

PAGE = (ROOT / "docs/scope.md").read_text(encoding="utf-8")


def named(heading: str) -> set[str]:
    """Return the first words of the code in the tables of a section."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")]
    return {code.split()[0] for row in rows for code in re.findall(r"`([^`]+)`", row)}


def headings() -> dict[str, str]:
    """Return the heading of the help under which each command is."""
    return {name: str(each.rich_help_panel) for name, each in typer.main.get_command(app).commands.items()}  # type: ignore[attr-defined]


def test_every_command_has_a_sentence_and_a_heading() -> None:
    assert set(headings()) == named("Commands") | {each for each in named("Extensions") if each in headings()}
    assert "Commands" not in headings().values()


def test_the_help_lists_commands_of_extensions_apart() -> None:
    apart = {name for name, heading in headings().items() if heading == EXTENSIONS}
    assert apart == named("Extensions") - named("Commands")


def test_every_key_has_a_sentence() -> None:
    assert {field.alias or name for name, field in Platform.model_fields.items()} == named("Keys of the platform file")
