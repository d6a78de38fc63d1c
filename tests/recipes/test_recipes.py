"""Following a recipe of docs/recipes, word for word, in a copy of the checkout gives what its page promises."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.fresh_checkout import fresh_checkout
from tests.recipes.followed import edited_files, follow_recipe, is_generated
from tests.recipes.page import RECIPES, blocks, page
from tests.representatives import with_representatives

# The page on launch targets is followed by tests/launch/test_own_target.py.
ELSEWHERE = "launch-target"
# tests/recipes/test_chart_version.py follows it, with a repository on loopback.
WITH_REPOSITORY = "chart-version"
NAMES = sorted(file.stem for file in RECIPES.glob("*.md") if file.stem not in ("README", ELSEWHERE))
FOLLOWED = [name for name in NAMES if name != WITH_REPOSITORY]
# The typical changes, by their recipes, with the most files that a person edits.
TYPICAL = {
    "instance-type": 6,
    "add-on": 6,
    "rule": 6,
    "optimizer": 6,
    "model-family": 6,
    "target-option": 6,
    "alarm": 6,
    "page": 6,
    "flag": 6,
    "key": 10,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return fresh_checkout(tmp_path / "checkout")


@pytest.mark.parametrize("name", with_representatives(FOLLOWED, ("rule",)))
def test_a_recipe_gives_what_it_promises(name: str, checkout: Path) -> None:
    follow_recipe(name, checkout)


@pytest.mark.parametrize("name", NAMES)
def test_a_recipe_is_short(name: str) -> None:
    """A change that needs more than a page and three files is to be made easier, not described at length."""
    assert len(page(name).splitlines()) <= 40
    assert len(blocks(page(name), "Change")) <= 2


@pytest.mark.parametrize(("name", "most"), TYPICAL.items())
def test_a_typical_change_edits_few_files(name: str, most: int) -> None:
    assert 1 <= len(edited_files(name)) <= most, sorted(edited_files(name))


def test_files_that_a_command_writes_are_told_from_those_that_a_person_edits() -> None:
    written = ("examples/platform.golden/cluster.json", "docs/reference/commands.md", "tests/seams/charts/facts.yaml")
    assert all(map(is_generated, written))
    assert not any(map(is_generated, ("examples/platform.yaml", "docs/design.md", "tests/seams/charts/facts.py")))


def test_the_index_names_every_recipe() -> None:
    assert set(re.findall(r"\]\(([a-z-]+)\.md\)", page("README"))) == {*NAMES, ELSEWHERE}
