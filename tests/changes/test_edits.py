"""Every edit of a live platform's file is deployed or refused before anything changes, and moves nothing else."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest

from tests.changes.conftest import LiveOf
from tests.changes.edits import EDITS, ORCHESTRATORS, Document, base
from tests.changes.live import Live
from tests.representatives import with_representatives
from tests.synthesis import ROOT

CASES = {f"{orchestrator}: {name}": (orchestrator, name) for name, edit in EDITS.items() for orchestrator in edit.on}
# Addresses, what follows the first group, and everything that a closed network has and a private one has not.
REPRESENTATIVES = (
    "eks: remove the middle group",
    "eks: a closed network",
)


@pytest.mark.parametrize("case", with_representatives(CASES, REPRESENTATIVES))
def test_an_edit_is_deployed_or_refused_and_moves_and_loses_nothing_else(case: str, live_of: LiveOf) -> None:
    orchestrator, name = CASES[case]
    edit, live = EDITS[name], live_of(orchestrator)
    for document in edit.documents(live.name, orchestrator):
        check(live, document, edit.moves, edit.loses, edit.refused)
    check(live, base(live.name, orchestrator), edit.moves, edit.back_loses, edit.stays)


def check(live: Live, document: Document, moves: str, loses: Collection[str], refused: str | None) -> None:
    """Deploy a document, and see that it moves and loses what it must and no more, or is refused for that reason.

    `trainway diff` must refuse exactly what the deploy, which is made all the same, then loses.
    """
    before = (live.physical_ids(), live.templates()) if refused else None
    outcome = live.edit(document, loses)
    if refused:
        assert refused in str(outcome.refused), outcome
        assert before == (live.physical_ids(), live.templates())
        return
    assert not outcome.refused, outcome
    assert outcome.names == outcome.lost == set(loses), outcome
    elsewhere = {moved for moved in outcome.moved if not re.fullmatch(moves, moved)}
    assert not elsewhere, f"it moved {sorted(elsewhere)}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_a_platform_is_destroyed_after_edits(orchestrator: str, live_of: LiveOf) -> None:
    live = live_of(orchestrator)
    document = base(live.name, orchestrator)
    groups = document["node_groups"]
    assert live.edit(document | {"node_groups": [groups[3], groups[2], groups[0]]}, ["bb"]).moved
    live.destroy()
    kept = {each["type"] for each in live.emulator.resources() if each["stack"].startswith(f"{live.name}-")}
    assert kept == {"AWS::S3::Bucket"}


def test_the_page_on_changes_tells_how_many_edits_are_tried() -> None:
    page = " ".join((ROOT / "docs" / "changing.md").read_text(encoding="utf-8").split())
    print(f"{len(EDITS)} edits, {len(CASES)} with the orchestrators that have them")
    assert f"{len(EDITS)} edits on {len(ORCHESTRATORS)} orchestrators, {len(CASES)} cases in all" in page
