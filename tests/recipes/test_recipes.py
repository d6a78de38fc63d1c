"""Following a recipe of docs/recipes, word for word, in a copy of the checkout gives what its page promises."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.fresh_checkout import fresh_checkout
from tests.known_day import on_known_day
from tests.recipes.page import RECIPES, apply, blocks, check_printed, commands, page
from tests.representatives import with_representatives

# The page on launch targets is followed by tests/launch/test_own_target.py.
ELSEWHERE = "launch-target"
NAMES = sorted(file.stem for file in RECIPES.glob("*.md") if file.stem not in ("README", ELSEWHERE))


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return fresh_checkout(tmp_path / "checkout")


@pytest.mark.parametrize("name", with_representatives(NAMES, ("rule",)))
def test_a_recipe_gives_what_it_promises(name: str, checkout: Path) -> None:
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


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_short(name: str) -> None:
    """A change that needs more than a page and three files is to be made easier, not described at length."""
    assert len(page(name).splitlines()) <= 40
    assert len(blocks(page(name), "Change")) <= 2


def test_the_index_names_every_recipe() -> None:
    assert set(re.findall(r"\]\(([a-z-]+)\.md\)", page("README"))) == {*NAMES, ELSEWHERE}
