"""What a stage is told is part of what decides that it runs: a new wait condition, and another pipeline action."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.stacks.changes import edited, merged, synthesized
from tests.synthesis import Template, resources

SQUASH = {"teams": [], "storage": {"lustre": {"root_squash": {"uid": 65534, "gid": 65534}}}}


def contents(stacks: dict[str, Template]) -> dict[str, str]:
    """By pipeline, the hash in the logical ids of its wait conditions."""
    found = {}
    for role, template in stacks.items():
        for name in resources(template, "AWS::CodePipeline::Pipeline"):
            conditions = {
                condition: each
                for condition, each in template["Resources"].items()
                if each["Type"] == "AWS::CloudFormation::WaitCondition" and name in each["DependsOn"]
            }
            (content,) = {re.findall(r"Done([0-9a-f]{16})", condition)[0] for condition in conditions}
            found[role if name.startswith("Delivery") else f"{role}-{name}"] = content
    return found


def told(action: dict[str, Any]) -> str:
    """An action's environment variables, as text with CloudFormation's expressions in it."""
    return json.dumps(action["Configuration"].get("EnvironmentVariables"))


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return contents(synthesized(tmp_path_factory.mktemp("before")))


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """The pipelines whose stages run again."""
    assert before.keys() == after.keys()
    return {name for name in before if before[name] != after[name]}


def test_a_change_of_training_builds_the_image_and_puts_it_into_the_runtimes(
    before: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited(tmp_path, monkeypatch, "training/train.py")
    assert changed(before, contents(synthesized(tmp_path))) == {"image", "cluster"}


def test_every_action_of_a_pipeline_carries_the_hash_of_its_wait_conditions(tmp_path: Path) -> None:
    stacks = synthesized(tmp_path)
    pipelines = {
        (role if name.startswith("Delivery") else f"{role}-{name}"): pipeline
        for role, template in stacks.items()
        for name, pipeline in resources(template, "AWS::CodePipeline::Pipeline").items()
    }
    for name, content in contents(stacks).items():
        actions = [action for step in pipelines[name]["Stages"][1:] for action in step["Actions"]]
        assert actions and all(content in told(action) for action in actions)


# A setting that no stage uses, and an in-place update of the file system.
UPDATED = {"observability": {"notify": "other@example.com"}, "storage": {"lustre": {"compression": False}}}


def test_a_change_of_what_no_stage_is_told_runs_none(before: dict[str, str], tmp_path: Path) -> None:
    assert changed(before, contents(synthesized(tmp_path, change=UPDATED))) == set()


def test_another_file_system_runs_the_stage_that_mounts_it_and_an_update_in_place_does_not(
    before: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "key").mkdir()
    (tmp_path / "updated").mkdir()
    key = "arn:aws:kms:us-west-2:111122223333:key/12345678-1234-1234-1234-123456789012"
    other = contents(synthesized(tmp_path / "key", change={"storage": {"lustre": {"key": key}}}))
    assert changed(before, other) == {"cluster"}
    assert changed(before, contents(synthesized(tmp_path / "updated", change=UPDATED))) == set()


def test_the_pipeline_differs_when_the_deploy_finds_another_file_system(tmp_path: Path) -> None:
    stacks = synthesized(tmp_path)
    (pipeline,) = resources(stacks["cluster"], "AWS::CodePipeline::Pipeline").values()
    (action,) = pipeline["Stages"][1]["Actions"]
    assert "FileSystem" in told(action) and "DNSName" in told(action)


def test_another_root_squash_is_set(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = contents(synthesized(tmp_path / "one", change=SQUASH))
    two = contents(
        synthesized(tmp_path / "two", change=merged(SQUASH, {"storage": {"lustre": {"root_squash": {"uid": 1}}}}))
    )
    assert changed(one, two) == {"file-system"}
