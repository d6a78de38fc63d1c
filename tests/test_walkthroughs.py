"""The commands of pages that lead through a task, which require no account, print what the pages promise."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.recipes.page import environment_of_reader, follow, session
from tests.representatives import with_representatives
from tests.synthesis import ROOT

PAGES = ("seventy-billion", "several-regions", "moving")


@pytest.mark.parametrize("name", with_representatives(PAGES, {"several-regions", "moving"}))
def test_following_the_page_gives_what_it_promises(name: str, tmp_path: Path) -> None:
    directory = tmp_path / "reader"
    shutil.copytree(ROOT / "examples" / "jobs", directory / "examples" / "jobs")
    path = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    environment = environment_of_reader(tmp_path / "home", path) | {"PYTHONPATH": str(ROOT)}
    page = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    assert follow(page, directory, session(directory, environment, tmp_path / "state"))
