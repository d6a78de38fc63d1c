"""Every edit of a live platform's file is told, and deployed or refused before anything changes; nothing else moves."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
import yaml

from tests.changes.conftest import LiveOf
from tests.changes.edits import EDITS, ORCHESTRATORS, REMOVED_AND_ADDED, Document, Edit, base
from tests.changes.live import Live, Outcome
from tests.representatives import with_representatives
from tests.synthesis import ROOT
from trainway.diff.names import KINDS
from trainway.diff.report import text_of

CASES = {f"{orchestrator}: {name}": (orchestrator, name) for name, edit in EDITS.items() for orchestrator in edit.on}
REPRESENTATIVES = (
    # Everything that a closed network has and a private one has not.
    "eks: a closed network",
    # A refusal beside an edit that nothing is lost by, and the addresses of what follows a removed group.
    f"eks: {REMOVED_AND_ADDED}",
)


@pytest.mark.parametrize("case", with_representatives(CASES, REPRESENTATIVES))
def test_an_edit_is_told_and_deployed_or_refused_and_loses_nothing_else(case: str, live_of: LiveOf) -> None:
    orchestrator, name = CASES[case]
    edit, live = EDITS[name], live_of(orchestrator)
    first, *others = edit.documents(live.name, orchestrator)
    if edit.told_only:
        check_words(edit, orchestrator, first, live.edit(first, with_keys=True, told_only=True))
        return
    check_words(edit, orchestrator, first, check(live, first, edit.moves, edit.loses, edit.refused, with_keys=True))
    for document in others:
        check(live, document, edit.moves, (), edit.refused)
    check(live, base(live.name, orchestrator), edit.moves, edit.back_loses, edit.stays)


def check(
    live: Live,
    document: Document,
    moves: str,
    loses: Collection[str],
    refused: str | None,
    *,
    with_keys: bool = False,
) -> Outcome:
    """Deploy a document, and see that it moves and loses what it must and no more, or is refused for that reason.

    `trainway diff` must refuse exactly what the deploy, which is made all the same, then loses.
    """
    before = (live.physical_ids(), live.templates()) if refused else None
    outcome = live.edit(document, () if refused else loses, with_keys=with_keys)
    if refused:
        assert refused in str(outcome.refused), outcome
        assert before == (live.physical_ids(), live.templates())
        return outcome
    assert not outcome.refused, outcome
    assert outcome.names == outcome.lost == set(loses), outcome
    elsewhere = {moved for moved in outcome.moved if not re.fullmatch(moves, moved)}
    assert not elsewhere, f"it moved {sorted(elsewhere)}"
    return outcome


def check_words(edit: Edit, orchestrator: str, document: Document, outcome: Outcome) -> None:
    """Compare what `trainway diff` says of an edit, unless the file is wrong, with what it must say."""
    report = outcome.report
    if report is None:
        assert edit.refused and not edit.lines(orchestrator)
        return
    text = text_of(report).replace(f"{report.platform}-", "live-")
    for line in edit.lines(orchestrator):
        assert f"\n{line}\n" in f"\n{text}\n", text
    assert {each.name: each.key for each in report.refused} == edit.loses, text
    for refusal in report.refused:
        assert refusal.line == line_of(document, refusal.key), text
        assert refusal.fix and refusal.why
    resources = [each for stack in report.stacks for each in stack.resources]
    gone = {each.name for each in resources if each.action in ("replaced", "deleted") and each.type in KINDS}
    assert gone == edit.gone_on(orchestrator), text


def line_of(document: Document, key: str) -> int:
    """Return the line of a key such as `node_groups[0].count`, found without the project's own reader."""
    lines = yaml.safe_dump(document, sort_keys=False).splitlines()
    first, _, rest = key.partition(".")
    name, _, index = first.removesuffix("]").partition("[")
    number = lines.index(next(line for line in lines if line.startswith(f"{name}:")))
    if index:
        items = [at for at in range(number + 1, len(lines)) if lines[at].startswith("- ")]
        number = items[int(index)]
    for part in filter(None, rest.split(".")):
        number = next(at for at in range(number, len(lines)) if lines[at].strip(" -").startswith(f"{part}:"))
    return number + 1


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
