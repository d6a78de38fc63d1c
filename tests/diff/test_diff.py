"""What `trainway diff` says of edits of deployed platforms, on the emulator."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from emulator import Emulator, running
from tests.changes.emulated_account import bootstrap
from tests.diff import platforms
from trainway.cli import app
from trainway.commands.changing import REFUSED
from trainway.diff import look
from trainway.diff.destroy import look_at_destroy
from trainway.diff.report import DiffReport, text_of
from trainway.spec.errors import UsageError
from trainway.spec.loader import load_lock
from trainway.spec.lock import lock_file


@dataclass
class Deployed:
    """Base platforms, each deployed when a test first asks for it, and their files as they were deployed."""

    emulator: Emulator
    directory: Path
    files: dict[str, tuple[str, str]] = field(default_factory=dict)

    def edit(self, base: str, change: Callable[[dict[str, Any]], Any]) -> Path:
        """Return the file of a deployed base platform with an edit, and beside it the lock of the next deploy."""
        file = self.directory / f"{base}.yaml"
        if base not in self.files:
            platforms.write_platform(file, platforms.base(base))
            platforms.deploy(self.emulator, file)
            self.files[base] = file.read_text(encoding="utf-8"), lock_file(file).read_text(encoding="utf-8")
        lock_file(file).write_text(self.files[base][1], encoding="utf-8")
        data = platforms.base(base)
        change(data)
        platforms.write_platform(file, data)
        return file


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployed]:
    with running() as emulator, pytest.MonkeyPatch.context() as patch:
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        for name, value in emulator.environment().items():
            patch.setenv(name, value)
        patch.setattr(look, "synthesize", platforms.synthesize_here)
        bootstrap(emulator)
        yield Deployed(emulator, tmp_path_factory.mktemp("platforms"))


def is_clean(deployed: Deployed) -> bool:
    """Return whether no change set and no empty stack is left."""
    cloudformation = platforms.client(deployed.emulator, "cloudformation")
    stacks = cloudformation.describe_stacks()["Stacks"]
    names = [each["StackName"] for each in stacks]
    left = [each for name in names for each in cloudformation.list_change_sets(StackName=name)["Summaries"]]
    return not [each for each in left if each["ChangeSetName"].startswith("trainway-diff")] and not [
        each for each in stacks if each["StackStatus"] == "REVIEW_IN_PROGRESS"
    ]


def test_what_is_named_is_not_refused_and_a_name_that_nothing_has_is_an_error(deployed: Deployed) -> None:
    file = deployed.edit("eks", lambda data: data["node_groups"].pop(1))
    assert look.look(file, allowed=["bb"]).refused == ()
    with pytest.raises(UsageError, match="--allow-replace cc cannot be used") as raised:
        look.look(file, allowed=["cc"])
    assert "what is: bb" in str(raised.value)


def test_a_replacement_that_only_the_lock_causes_names_its_line(deployed: Deployed) -> None:
    file = deployed.edit("eks", lambda _: None)
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


def test_a_lost_lock_is_written_again_from_what_is_deployed(deployed: Deployed) -> None:
    """Without its lock, a file in another order gives every group another range."""
    file = deployed.edit("eks", lambda data: data["node_groups"].reverse())
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
    assert [stack.name for stack in report.stacks if stack.resources] == ["base-eks-cluster"], "the order of the file"
    assert "nothing changes" in CliRunner().invoke(app, ["lock", str(file), "--from-deployed"]).stdout
    file = deployed.edit("eks", lambda _: None)
    lock.unlink()
    assert CliRunner().invoke(app, ["lock", str(file), "--from-deployed"]).exit_code == 0
    assert "\nNothing changes." in text_of(look.look(file))


def test_a_lock_of_a_platform_that_is_not_deployed_is_not_made_up(deployed: Deployed) -> None:
    file = deployed.edit("eks", lambda data: data.update(name="fresh"))
    ran = CliRunner().invoke(app, ["lock", str(file), "--from-deployed"])
    assert isinstance(ran.exception, UsageError)
    assert "has no SSM parameter /trainway/fresh/lock in us-west-2" in str(ran.exception)


def test_the_command_line_prints_a_document_and_ends_with_3(deployed: Deployed, tmp_path: Path) -> None:
    file = deployed.edit("eks", lambda data: data["node_groups"].pop(1))
    assembly = tmp_path / "assembly"
    ran = CliRunner().invoke(app, ["diff", str(file), "--json", "--assembly", str(assembly)])
    assert ran.exit_code == REFUSED, ran.output
    report = DiffReport.model_validate_json(ran.stdout)
    (refusal,) = report.refused
    assert (refusal.name, refusal.stack, refusal.file) == ("bb", "base-eks-cluster", str(file))
    assert (assembly / "manifest.json").exists()
    allowed = CliRunner().invoke(app, ["diff", str(file), "--allow-replace", "bb"])
    assert allowed.exit_code == 0
    assert "refused" not in allowed.stdout


def test_a_platform_that_is_not_deployed_is_created(deployed: Deployed) -> None:
    """No change set of a stack that imports another's export can be made, and no empty stack is left."""
    file = deployed.edit("eks", lambda data: data.update(name="fresh"))
    report = look.look(file)
    assert {each.action for stack in report.stacks for each in stack.resources} == {"created"}
    assert all(stack.is_new and not stack.change_set for stack in report.stacks)
    assert report.minutes >= 20
    assert is_clean(deployed)


def test_a_destroy_is_told_without_a_synthesis(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
    file = deployed.edit("eks", lambda _: None)
    monkeypatch.delattr(look, "synthesize")
    report = look_at_destroy(file)
    resources = [each for stack in report.stacks for each in stack.resources]
    assert {each.action for each in resources} == {"deleted"}
    costs = {each.name: each.cost for each in resources if each.cost}
    assert costs["aa"] == "2 nodes stop, and the jobs on them"
    assert costs["storage.lustre"] == "you lose its files, except those that are in S3"
    assert costs["DataBucket"] == "it is kept, outside of the stack"
    some = look_at_destroy(file, stacks=["base-eks-file-system"])
    assert "base-eks-cluster" in {stack.name for stack in some.stacks}, "it refers to the file system"
    assert "base-eks-network" not in {stack.name for stack in some.stacks}
    with pytest.raises(UsageError, match="the stack other cannot be destroyed"):
        look_at_destroy(file, stacks=["other"])
