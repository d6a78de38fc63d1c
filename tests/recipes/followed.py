"""A recipe in a copy of the checkout, and the files that it edits."""

from __future__ import annotations

import os
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path

from tests.known_day import on_known_day
from tests.recipes.page import EDIT, apply, check_printed, commands, page
from tests.synthesis import ROOT

QUOTED = re.compile(r"`([\w.-]+/[\w./-]+)`")
# Git ignores the folder. The files that a reader creates there are input of commands.
SCRATCH = "build/"


def follow_recipe(name: str, checkout: Path) -> None:
    """Follow a recipe in a copy of the checkout, and check the output of its commands and the files that change."""
    _git(checkout, "init", "--quiet")
    _git(checkout, "add", "--all")
    apply(page(name), checkout)
    # Modules are found in the copy before those of the checkout that is installed in the virtual environment.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**inherited, "PYTHONPATH": str(checkout), "PATH": f"{checkout}/.venv/bin:{os.environ['PATH']}"}
    ran = 0
    for command, promised in commands(page(name)):
        done = subprocess.run(
            ["bash", "-c", on_known_day(command)],
            cwd=checkout,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{said}"
        check_printed(command, promised, said)
        ran += 1
    assert ran, f"{name}.md runs nothing"
    written = {file for file in changed_files(checkout) if not is_generated(file)}
    assert written == blocks_of(name), f"{name}.md changes other files than its blocks and those of a command"
    if python := sorted(file for file in written if file.endswith(".py")):
        for words in (["check"], ["format", "--check"]):
            done = subprocess.run(
                ["ruff", *words, *python], cwd=checkout, env=environment, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stdout + done.stderr


def changed_files(checkout: Path) -> set[str]:
    """Return the files that changed after `follow_recipe` copied the checkout. Files that Git ignores are left out."""
    changed = _git(checkout, "diff", "--name-only", "--no-renames")
    return {*changed.splitlines(), *_git(checkout, "ls-files", "--others", "--exclude-standard").splitlines()}


def blocks_of(name: str) -> set[str]:
    """Return the files that the blocks of a recipe create or change."""
    return {path for _, path, _ in EDIT.findall(page(name)) if not path.startswith(SCRATCH)}


def edited_files(name: str) -> set[str]:
    """Return the files and folders that a person edits: those of the blocks, and all others that a sentence names.

    Folders above the files of blocks do not count, and neither do files that a command writes.
    """
    edited = blocks_of(name)
    sentences = re.sub(r"^```.*?^```$", "", page(name), flags=re.MULTILINE | re.DOTALL)
    named = {path.rstrip("/") for path in QUOTED.findall(sentences) if (ROOT / path).exists()}
    above = {path for path in named if any(file.startswith(f"{path}/") for file in edited)}
    return edited | {path for path in named - above if not is_generated(path)}


def is_generated(path: str) -> bool:
    """Return whether a command writes a file, by the table of CONTRIBUTING.md. A person also edits docs/design.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text.partition("## Generated files")[2].partition("\n## ")[0]
    written = [
        each for row in re.findall(r"^\|([^|]*)\|", table, re.MULTILINE) for each in re.findall("`([^`]+)`", row)
    ]
    patterns = (f"{each}*" if each.endswith("/") else each for each in written if each != "docs/design.md")
    return any(fnmatchcase(path, each) for each in patterns)


def _git(checkout: Path, *words: str) -> str:
    command = ["git", "-C", str(checkout), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
