"""The words to avoid of docs/style.md are found in every kind of text, and not in code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.prose import ROOT, avoided, files, found

FOUND = {
    "a page": ("page.md", "# Runs\n\nThe run\ngoes on.\n", 4),
    "a cell of a table": ("page.md", "| a | b |\n|---|---|\n| c | nodes are to be had |\n", 3),
    "a phrase on two lines": ("page.md", "The run goes\non.\n", 1),
    "a docstring": ("module.py", '"""The run goes on."""\n', 1),
    "a message": ("module.py", 'run = 1\nprint(f"{run} goes on")\n', 2),
    "a comment of Python": ("module.py", "run = 1\n\nrun = 2  # The run goes on.\n", 3),
    "a comment of a script": ("script.sh", "#!/bin/sh\n# Nobody knows why.\n", 2),
    "a description in YAML": ("facts.yaml", "note: It waits in vain.\n", 1),
}
LEFT = {
    "a block of code": ("page.md", "```\nThe run goes on.\n```\n"),
    "code in a sentence": ("page.md", "The state `goes on` is a name.\n"),
    "a name": ("module.py", "goes_on = 1\n"),
    "another phrase": ("page.md", "Beforehands are no word. The job was based on this.\n"),
}


@pytest.mark.parametrize("kind", FOUND)
def test_a_phrase_is_found_with_its_line(kind: str, tmp_path: Path) -> None:
    name, text, line = FOUND[kind]
    (file := tmp_path / name).write_text(text, encoding="utf-8")
    (only,) = found(file)
    assert only.startswith(f"{file}:{line}: ")


@pytest.mark.parametrize("kind", LEFT)
def test_code_is_left_alone(kind: str, tmp_path: Path) -> None:
    name, text = LEFT[kind]
    (file := tmp_path / name).write_text(text, encoding="utf-8")
    assert list(found(file)) == []


def test_a_test_may_plant_a_phrase_in_a_string_but_not_in_a_docstring(tmp_path: Path) -> None:
    (file := tmp_path / "test_it.py").write_text('"""It goes on."""\nPLANTED = "It goes on."\n', encoding="utf-8")
    (only,) = found(file, strings=False)
    assert only.startswith(f"{file}:1: ")


def test_the_files_are_all_that_have_sentences() -> None:
    names = {file.relative_to(ROOT).as_posix() for file in files()}
    assert {"README.md", "Makefile", "container/Dockerfile", "scripts/setup", ".ci/run"} <= names
    assert {"delivery/cluster.sh", "training/train.py", "trainway/spec/facts/services.yaml", "tests/prose.py"} <= names


def test_every_phrase_of_the_page_is_looked_for() -> None:
    phrases = ("go on", "going  on", "TO BE HAD", "let go", "take out", "nobody knows", "beforehand", "in vain")
    assert all(avoided().search(phrase) for phrase in phrases)


def test_the_spelling_of_a_page_is_checked(tmp_path: Path) -> None:
    (page := tmp_path / "page.md").write_text("The colour of the seperate lines.\n", encoding="utf-8")
    checked = subprocess.run(
        [Path(sys.executable).with_name("codespell"), page], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert checked.returncode and "colour ==> color" in checked.stdout and "seperate ==> separate" in checked.stdout
