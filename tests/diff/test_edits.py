"""Every edit of a platform file is found with its key, and put back alone it leaves the other edits."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis import EXAMPLES
from trainway.diff.blame import LocatedEdit, causes_of
from trainway.diff.edits import edits_between
from trainway.diff.tokens import Id, StackTemplate
from trainway.spec import deployed_file
from trainway.spec.deployed_file import DeployedFile
from trainway.spec.errors import usage_error
from trainway.spec.loader import load_platform
from trainway.spec.lock import Lock, lock_file
from trainway.spec.platform import Platform
from trainway.spec.problems import show_key

BASE: dict[str, Any] = {
    "name": "x",
    "region": "us-west-2",
    "zones": ["usw2-az2"],
    "network": {"cidr": "10.0.0.0/16"},
    "node_groups": [{"name": name, "instance_type": "g5.8xlarge", "count": 1} for name in "abc"],
}


def edited(**keys: Any) -> dict[str, Any]:
    return copy.deepcopy(BASE) | keys


def shown(today: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(show_key(each.key), each.what) for each in edits_between(BASE, today)]


@pytest.mark.parametrize(
    ("today", "expected"),
    [
        (edited(), []),
        (edited(zones=["usw2-az1"]), [("zones", "it was another")]),
        (edited(network={"cidr": "10.1.0.0/16"}), [("network.cidr", "it was 10.0.0.0/16")]),
        (edited(network={}), [("network", "cidr was removed")]),
        (edited(storage={"home": {}}), [("storage", "it was added")]),
        (edited(node_groups=BASE["node_groups"][1:]), [("node_groups", "a was removed")]),
        (edited(node_groups=BASE["node_groups"][::-1]), [("node_groups", "its order was changed")]),
        (
            edited(node_groups=[*BASE["node_groups"][:2], BASE["node_groups"][2] | {"count": 4}]),
            [("node_groups[2].count", "it was 1")],
        ),
        (
            edited(node_groups=[{"name": "d"}, *BASE["node_groups"]]),
            [("node_groups[0]", "d was added")],
        ),
    ],
)
def test_an_edit_has_its_key_and_what_was_done(today: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert shown(today) == expected
    if len(expected) == 1:
        (edit,) = edits_between(BASE, today)
        assert edits_between(BASE, edit.put_back) == []


def test_one_of_several_edits_is_put_back_alone() -> None:
    today = edited(name="y", node_groups=[BASE["node_groups"][0] | {"count": 7}, BASE["node_groups"][2]])
    found = {each.what: each.put_back for each in edits_between(BASE, today)}
    assert found.keys() == {"it was x", "it was 1", "b was removed"}
    for what, put_back in found.items():
        assert {each.what for each in edits_between(BASE, put_back)} == found.keys() - {what}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_what_is_kept_of_a_platform_is_the_platform(file: Path) -> None:
    platform = load_platform(file)
    text = deployed_file.written(deployed_file.deployed_file(platform))
    assert text is not None
    kept = deployed_file.read(text)
    assert kept is not None
    assert Platform.model_validate(kept.platform) == platform


def test_a_file_that_no_parameter_holds_is_not_kept() -> None:
    assert deployed_file.written(DeployedFile(platform={"name": "x" * deployed_file.MOST_BYTES})) is None
    assert deployed_file.read("[1]") is None


def test_the_cause_is_the_edit_without_which_nothing_is_lost(tmp_path: Path) -> None:
    """A file whose data cannot be synthesized says nothing about its edit."""
    file = tmp_path / "platform.yaml"
    today = edited(network={"cidr": "10.1.0.0/16"}, zones=["usw2-az1"], name="y")

    def template(cidr: str) -> dict[str, StackTemplate]:
        return {"network": {"Resources": {"Vpc": {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": cidr}}}}}

    def synthesis(trial: Path) -> dict[str, StackTemplate]:
        text = trial.read_text(encoding="utf-8")
        if "usw2-az2" in text:
            raise usage_error("no", why="no", fix="no")
        return template("10.0.0.0/16" if "10.0.0.0" in text else "10.1.0.0/16")

    vpc = Id("network", "Vpc")
    platform, deployed = Platform.model_validate(today), template("10.0.0.0/16")
    causes = causes_of([vpc], DeployedFile(platform=BASE), None, platform, file, deployed, synthesis)
    assert show_key(causes[vpc].edit.key) == "network.cidr"
    only_name = Platform.model_validate(edited(name="y"))
    lost = template("10.9.0.0/16")
    causes = causes_of([vpc], DeployedFile(platform=BASE), None, only_name, file, lost, synthesis)
    assert show_key(causes[vpc].edit.key) == "name"
    neither = Platform.model_validate(edited(name="y", zones=["usw2-az1"]))
    assert causes_of([vpc], DeployedFile(platform=BASE), None, neither, file, template("10.9.0.0/16"), synthesis) == {}


def test_a_group_that_takes_its_tags_out_of_the_lock_is_one_edit_and_is_not_tried(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    lock_file(file).write_text("", encoding="utf-8")
    fewer = Platform.model_validate(edited(node_groups=BASE["node_groups"][::2]))
    deployed = Lock(node_tags={name: {"of": name} for name in "abc"})

    def no_trial(_: Path) -> dict[str, StackTemplate]:
        raise AssertionError("it synthesized")

    def cause(tags: dict[str, dict[str, str]]) -> tuple[str, str]:
        today = fewer.with_lock(Lock(node_tags=tags))
        edit = causes_of([group], DeployedFile(platform=BASE), deployed, today, file, {}, no_trial)[group].edit
        return show_key(edit.key), edit.what

    group = Id("cluster", "Nodes")
    assert cause({name: {"of": name} for name in "ac"}) == ("node_groups", "b was removed")
    with pytest.raises(AssertionError, match="it synthesized"):
        cause({"a": {"of": "another"}, "c": {"of": "c"}})


def test_other_edits_are_not_tried_if_the_lost_lock_explains_everything(tmp_path: Path) -> None:
    file, vpc = tmp_path / "platform.yaml", Id("network", "Vpc")
    lost, tried = {"network": {"Resources": {"Vpc": {"Type": "AWS::EC2::VPC"}}}}, list[Path]()

    def causes(then: dict[str, StackTemplate]) -> dict[Id, LocatedEdit]:
        def synthesis(trial: Path) -> dict[str, StackTemplate]:
            tried.append(trial)
            return then

        platform = Platform.model_validate(edited(name="y"))
        return causes_of([vpc], DeployedFile(platform=BASE), Lock(), platform, file, lost, synthesis)

    assert causes(lost)[vpc].edit.what == "it is missing"
    assert len(tried) == 1
    assert causes({"network": {"Resources": {}}}) == {}
    assert len(tried) == 3
