"""Every edit of a live platform's file is deployed or refused before anything changes, and moves nothing else."""

from __future__ import annotations

import re

import pytest

from tests.changes.conftest import LiveOf
from tests.changes.edits import EDITS, ORCHESTRATORS, base
from tests.representatives import with_representatives
from tests.synthesis import ROOT

CASES = {f"{orchestrator}: {name}": (orchestrator, name) for name, edit in EDITS.items() for orchestrator in edit.on}
# Addresses, what follows the first group, and everything that a closed network has and a private one has not.
REPRESENTATIVES = (
    "eks: remove the middle group",
    "hyperpod-eks: remove the first group",
    "eks: a closed network",
)


@pytest.mark.parametrize("case", with_representatives(CASES, REPRESENTATIVES))
def test_an_edit_is_deployed_or_refused_and_moves_nothing_else(case: str, live_of: LiveOf) -> None:
    orchestrator, name = CASES[case]
    edit, live = EDITS[name], live_of(orchestrator)
    for document in edit.documents(live.name, orchestrator):
        before = live.physical_ids(), live.templates()
        outcome = live.edit(document)
        assert bool(outcome.refused) == bool(edit.refused), outcome
        if edit.refused:
            assert edit.refused in str(outcome.refused)
            assert before == (live.physical_ids(), live.templates())
        elsewhere = {moved for moved in outcome.moved if not re.fullmatch(edit.moves, moved)}
        assert not elsewhere, f"{name} moved {sorted(elsewhere)}"
    back = live.edit(base(live.name, orchestrator))
    assert (edit.stays or "") in str(back.refused) if edit.stays else not back.refused, back
    elsewhere = {moved for moved in back.moved if not re.fullmatch(edit.moves, moved)}
    assert not elsewhere, f"the way back moved {sorted(elsewhere)}"


@pytest.mark.exhaustive
@pytest.mark.parametrize("orchestrator", ORCHESTRATORS)
def test_a_platform_is_destroyed_after_edits(orchestrator: str, live_of: LiveOf) -> None:
    live = live_of(orchestrator)
    document = base(live.name, orchestrator)
    groups = document["node_groups"]
    assert live.edit(document | {"node_groups": [groups[2], groups[0]]}).moved
    live.destroy()
    kept = {each["type"] for each in live.emulator.resources() if each["stack"].startswith(f"{live.name}-")}
    assert kept == {"AWS::S3::Bucket"}


def test_the_page_on_changes_tells_how_many_edits_are_tried() -> None:
    page = " ".join((ROOT / "docs" / "changing.md").read_text(encoding="utf-8").split())
    print(f"{len(EDITS)} edits, {len(CASES)} with the orchestrators that have them")
    assert f"{len(EDITS)} edits on {len(ORCHESTRATORS)} orchestrators, {len(CASES)} cases in all" in page
