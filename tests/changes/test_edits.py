"""The diff describes each edit of a deployed platform's file, and the deploy changes nothing else.

The tests of the whole `trainway diff` are here too, so that one worker deploys one platform for all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from tests.changes.conftest import LiveOf
from tests.changes.edit import KUBERNETES, ORCHESTRATORS, Document, Edit, base
from tests.changes.edits import EDITS, REMOVED_AND_ADDED
from tests.changes.emulated_account import EmulatedAccount
from tests.changes.live import Live, Outcome
from tests.representatives import with_representatives
from tests.synthesis import ROOT
from trainway.cli import app
from trainway.commands.changing import REFUSED
from trainway.diff import look
from trainway.diff.consequences import platforms_beside
from trainway.diff.destroy import look_at_destroy
from trainway.diff.look import _notices
from trainway.diff.looked import Looked
from trainway.diff.names import KINDS
from trainway.diff.report import DiffReport, text_of
from trainway.plan.document import plan_document
from trainway.spec.errors import UsageError
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff_names import parameter_name
from trainway.spec.loader import load_lock, load_platform
from trainway.spec.lock import lock_file

CASES = {f"{orchestrator}: {name}": (orchestrator, name) for name, edit in EDITS.items() for orchestrator in edit.on}
# A refused change beside an allowed one, and the subnet CIDR blocks of the groups after a removed group.
REPRESENTATIVES = (f"eks: {REMOVED_AND_ADDED}",)


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
    """Compare the output of `trainway diff` with the expected lines and refusals, unless the file is invalid."""
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
    # The logs of a control plane stay, because EKS would create their group again.
    logs = {"AWS::Logs::LogGroup"} if orchestrator in KUBERNETES else set()
    assert kept == {"AWS::S3::Bucket"} | logs


def test_the_page_on_changes_tells_how_many_edits_are_tried() -> None:
    page = " ".join((ROOT / "docs" / "changing.md").read_text(encoding="utf-8").split())
    print(f"{len(EDITS)} edits, {len(CASES)} with the orchestrators that have them")
    assert f"{len(EDITS)} edits on {len(ORCHESTRATORS)} orchestrators, {len(CASES)} cases in all" in page


@pytest.mark.parametrize("orchestrator", with_representatives(ORCHESTRATORS, ("eks",)))
def test_a_platform_that_is_not_deployed_is_created(orchestrator: str, live_of: LiveOf) -> None:
    """CloudFormation creates no change set for a stack whose imports do not exist. The diff leaves no empty stack."""
    live = live_of(orchestrator)
    report = live.created.report
    assert report
    assert {each.action for stack in report.stacks for each in stack.resources} == {"created"}
    assert all(stack.is_new and not stack.change_set for stack in report.stacks)
    assert report.minutes == plan_document(live.platform, load_catalogue())["deploy"]["minutes"]
    # What is another platform's is not this one's, and stays.
    (beside,) = platforms_beside(EmulatedAccount(live.emulator), "other")
    assert live.name in beside and "deployed in this account and Region" in beside
    assert (
        live.name not in "".join(platforms_beside(EmulatedAccount(live.emulator), live.name)).partition(" deployed")[0]
    )
    other = live.platform.model_copy(update={"name": "other"})
    assert _notices(EmulatedAccount(live.emulator), other, Looked({}, {}, [], {}, {}), {}) == (beside,)
    lines = text_of(report).splitlines()
    role = "control-plane" if orchestrator in KUBERNETES else "cluster"
    assert {f"{live.name}-{role}: a new stack", "  created           node group aa"} <= set(lines)


@pytest.mark.usefixtures("shell")
def test_the_command_line_prints_a_document_ends_with_3_and_takes_names(live_of: LiveOf, tmp_path: Path) -> None:
    live = live_of("eks")
    (document,) = EDITS[REMOVED_AND_ADDED].documents(live.name, "eks")
    file, assembly = live.write(document), tmp_path / "assembly"
    ran = CliRunner().invoke(app, ["diff", str(file), "--json", "--assembly", str(assembly)])
    assert ran.exit_code == REFUSED, ran.output
    report = DiffReport.model_validate_json(ran.stdout)
    (refusal,) = report.refused
    assert (refusal.name, refusal.stack, refusal.file) == ("bb", f"{live.name}-cluster", str(file))
    assert (assembly / "manifest.json").exists()
    allowed = CliRunner().invoke(app, ["diff", str(file), "--allow-replace", "bb"])
    assert allowed.exit_code == 0
    assert "refused" not in allowed.stdout
    with pytest.raises(UsageError, match="--allow-replace cc cannot be used") as raised:
        look.look(file, allowed=["cc"])
    assert "what is: bb" in str(raised.value)
    assert live.is_clean()


@pytest.mark.exhaustive
@pytest.mark.usefixtures("shell")
def test_a_replacement_that_only_the_lock_causes_names_its_line(live_of: LiveOf) -> None:
    live = live_of("eks")
    file = live.write(base(live.name, "eks"))
    lock = lock_file(file)
    moved = re.sub(r"(nodes-bb: {cidr: 10\.0\.)\d+", r"\g<1>224", lock.read_text(encoding="utf-8"))
    lock.write_text(moved, encoding="utf-8")
    refused = {each.name: each for each in look.look(file).refused}
    assert refused.keys() == {"bb", "nodes-bb"}
    line = 1 + next(n for n, text in enumerate(moved.splitlines()) if "nodes-bb" in text)
    for each in refused.values():
        assert (each.file, each.line, each.key) == (str(lock), line, "subnets.nodes-bb.cidr")
    assert refused["nodes-bb"].edit.startswith("it was 10.0.")
    assert "trainway lock --from-deployed" in refused["nodes-bb"].fix


@pytest.mark.usefixtures("shell")
def test_a_lost_lock_is_written_again_from_what_is_deployed(live_of: LiveOf) -> None:
    """A file that lists its node groups in another order assigns other CIDR blocks if the lock is missing."""
    live = live_of("eks")
    document = base(live.name, "eks")
    file = live.write(document | {"node_groups": document["node_groups"][::-1]})
    lock = lock_file(file)
    held = load_lock(lock)
    lock.unlink()
    (where,) = {(each.file, each.key, each.edit) for each in look.look(file).refused}
    assert where == (str(lock), lock.name, "it is missing")
    ran = CliRunner().invoke(app, ["lock", str(file), "--from-deployed"])
    assert ran.exit_code == 0, ran.output
    assert load_lock(lock).subnets == held.subnets
    report = look.look(file)
    assert not report.refused
    changing = [stack.name for stack in report.stacks if stack.resources]
    assert changing == [f"{live.name}-cluster"], "the order of the file"
    assert "nothing changes" in CliRunner().invoke(app, ["lock", str(file), "--from-deployed"]).stdout
    file = live.write(document)
    lock.unlink()
    assert CliRunner().invoke(app, ["lock", str(file), "--from-deployed"]).exit_code == 0
    assert "\nNothing changes." in text_of(look.look(file))


@pytest.mark.usefixtures("shell")
def test_a_lock_of_a_platform_that_is_not_deployed_is_not_made_up(live_of: LiveOf) -> None:
    live = live_of("eks")
    file = live.write(base("fresh", "eks"))
    ran = CliRunner().invoke(app, ["lock", str(file), "--from-deployed"])
    assert isinstance(ran.exception, UsageError)
    assert "has no SSM parameter /trainway/fresh/lock in us-west-2" in str(ran.exception)


@pytest.mark.usefixtures("shell")
def test_a_destroy_is_told_without_a_synthesis(live_of: LiveOf, monkeypatch: pytest.MonkeyPatch) -> None:
    live = live_of("eks")
    file = live.write(base(live.name, "eks"))
    monkeypatch.delattr(look, "synthesize")
    report = look_at_destroy(file)
    resources = [each for stack in report.stacks for each in stack.resources]
    assert {each.action for each in resources} == {"deleted"}
    costs = {each.name: each.cost for each in resources if each.cost}
    assert costs["aa"] == "2 nodes stop, and the jobs on them"
    assert costs["storage.lustre"] == "you lose its files, except those that are in S3"
    assert costs["DataBucket"] == "it is kept, outside of the stack"
    some = {stack.name for stack in look_at_destroy(file, stacks=[f"{live.name}-file-system"]).stacks}
    assert f"{live.name}-cluster" in some, "it refers to the file system"
    assert f"{live.name}-network" not in some
    with pytest.raises(UsageError, match="the stack other cannot be destroyed"):
        look_at_destroy(file, stacks=["other"])


@pytest.mark.usefixtures("shell")
def test_what_a_newer_version_deployed_is_refused_before_anything_is_synthesized(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = ROOT / "platform.yaml"
    platform = load_platform(file)

    def synthesize(*_: object, **__: object) -> None:
        raise AssertionError("the version is compared first")

    monkeypatch.setattr(look, "synthesize", synthesize)
    newer = json.dumps({"schema_version": 2, "trainway": {"version": "99.0.0"}})
    ssm: Any = boto3.client("ssm", region_name=platform.region)
    ssm.put_parameter(Name=parameter_name(platform.name), Type="String", Value=newer)
    with pytest.raises(UsageError, match=r"install Trainway 99\.0\.0 or newer, and deploy with it"):
        look.look(file)
    ssm.delete_parameter(Name=parameter_name(platform.name))
    with pytest.raises(AssertionError, match="compared first"):
        look.look(file)
