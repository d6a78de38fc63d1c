"""A recipe as its page in docs/recipes says it: files to create, files to change, and commands with what they print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.synthesis import ROOT

RECIPES = ROOT / "docs" / "recipes"
EDIT = re.compile(r"^(Create|Change) `([^`]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> str:
    """Return the text of the recipe `docs/recipes/NAME.md`."""
    return (RECIPES / f"{name}.md").read_text(encoding="utf-8")


def blocks(text: str, verb: str) -> dict[str, str]:
    """Return the code blocks of a page by their path; `verb` is "Create" for whole files and "Change" for diffs."""
    return {path: block for said, path, block in EDIT.findall(text) if said == verb}


def commands(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a page's console blocks with the lines that it promises to print."""
    for block in CONSOLE.findall(text):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *promised = part.splitlines()
            yield command, promised


def added(diff: str) -> str:
    """Return the lines that a diff adds."""
    return "".join(line[1:] + "\n" for line in diff.splitlines() if line.startswith("+"))


def apply_diff(diff: str, text: str, name: str) -> str:
    """Return a file's text with the unchanged and removed lines of a diff replaced by its unchanged and added ones.

    They occur once in the file, whose name is for the message otherwise.
    """
    lines = diff.splitlines()
    old = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("+")) + "\n"
    new = "".join(f"\n{line[1:]}" for line in lines if not line.startswith("-")) + "\n"
    whole = f"\n{text}"
    assert whole.count(old) == 1, f"{name} has {whole.count(old)} times what the recipe changes:{old}"
    return whole.replace(old, new)[1:]


def apply(text: str, checkout: Path) -> None:
    """Do what a page says to the files of a checkout."""
    for path, diff in blocks(text, "Change").items():
        file = checkout / path
        file.write_text(apply_diff(diff, file.read_text(encoding="utf-8"), path), encoding="utf-8")
    for path, content in blocks(text, "Create").items():
        assert not (checkout / path).exists(), f"{path} is there already"
        (checkout / path).parent.mkdir(parents=True, exist_ok=True)
        (checkout / path).write_text(content, encoding="utf-8")
