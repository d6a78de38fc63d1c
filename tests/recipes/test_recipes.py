"""Following a recipe of docs/recipes, word for word, in a copy of the checkout gives what its page promises."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.recipes.page import RECIPES, apply, blocks, commands, page
from tests.representatives import with_representatives
from tests.synthesis import ROOT

# The page on launch targets is followed by tests/launch/test_own_target.py.
ELSEWHERE = "launch-target"
NAMES = sorted(file.stem for file in RECIPES.glob("*.md") if file.stem not in ("README", ELSEWHERE))
# What `make setup` installs. The copy of the checkout uses that of this one.
INSTALLED = (".venv", "node_modules")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the files of this checkout that `make setup` has nothing to do for."""
    copy = tmp_path / "checkout"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    for name in INSTALLED:
        (copy / name).symlink_to((ROOT / name).resolve())
    (copy / "scripts" / "setup").write_text("#!/bin/sh\n")
    return copy


@pytest.mark.parametrize("name", with_representatives(NAMES, ("rule",)))
def test_a_recipe_gives_what_it_promises(name: str, checkout: Path) -> None:
    apply(page(name), checkout)
    # Modules are found in the copy before those of the checkout that is installed in the virtual environment.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment = {**inherited, "PYTHONPATH": str(checkout), "PATH": f"{checkout}/.venv/bin:{os.environ['PATH']}"}
    ran = 0
    for command, promised in commands(page(name)):
        done = subprocess.run(
            ["bash", "-c", command], cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"$ {command}\n{said}"
        where = 0
        for line in promised:
            where = said.find(line, where)
            assert where >= 0, f"{line!r} is not what `{command}` prints:\n{said}"
            where += len(line)
        ran += 1
    assert ran, f"{name}.md runs nothing"


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_short(name: str) -> None:
    """A change that needs more than a page and three files is to be made easier, not described at length."""
    assert len(page(name).splitlines()) <= 40
    assert len(blocks(page(name), "Change")) <= 2


def test_the_index_names_every_recipe() -> None:
    assert set(re.findall(r"\]\(([a-z-]+)\.md\)", page("README"))) == {*NAMES, ELSEWHERE}
