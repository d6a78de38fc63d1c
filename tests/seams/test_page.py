"""docs/seams.md lists every seam, and every seam names files that exist."""

from __future__ import annotations

import pytest

from tests.seams.page import BETWEEN, PAGE, table
from tests.seams.seam import Seam, all_seams
from tests.synthesis import ROOT

EVERY = [seam for seams in all_seams().values() for seam in seams]


def test_the_page_lists_every_seam() -> None:
    found = BETWEEN.search(PAGE.read_text(encoding="utf-8"))
    assert found, "the page has lost its markers"
    assert found[0] == table(), "run `python -m tests.seams.page`"


@pytest.mark.parametrize("seam", EVERY, ids=lambda seam: seam.artifact)
def test_a_seam_names_what_renders_it_and_has_a_planted_error(seam: Seam) -> None:
    assert (ROOT / seam.rendered_by).exists()
    assert seam.planted, f"{seam.artifact} has no planted error, so nothing shows that its reader reads"


def test_no_artifact_is_listed_twice() -> None:
    names = [seam.artifact for seam in EVERY]
    assert len(names) == len(set(names))
