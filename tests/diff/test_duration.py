"""A diff and a plan say the same time, and a change takes the time of what it changes, in the order of a deploy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.people import ADMIN
from tests.synthesis import EXAMPLES, templates_of
from trainway.diff.compare import Action, ResourceDiff, compare
from trainway.diff.deliveries import delivery_of
from trainway.diff.duration import minutes_of, minutes_of_deploy
from trainway.diff.instance_groups import KIND
from trainway.diff.look import role_of
from trainway.diff.tokens import Id, StackTemplate
from trainway.plan.document import plan_document
from trainway.spec.deployment import creation
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()


def minutes_of_change(platform: Platform, deployed: dict[str, StackTemplate], wanted: dict[str, StackTemplate]) -> int:
    diffs = compare(deployed, wanted)
    stages = dict[str, int]()
    for name in wanted:
        of_stack = [each for each in diffs if each.id.stack == name]
        role = role_of(name, platform)
        stages |= delivery_of(role, of_stack, list(deployed.values()), platform, CATALOGUE).minutes
    return minutes_of_deploy([(role_of(each.id.stack, platform), each) for each in diffs], stages, platform, CATALOGUE)


def named(file: Path) -> dict[str, StackTemplate]:
    platform = load_platform(file)
    return {f"{platform.name}-{role}": template for role, template in templates_of(file).items()}


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_the_diff_of_a_first_deploy_says_the_minutes_of_the_plan(file: Path) -> None:
    platform = load_platform(file)
    assert minutes_of_change(platform, {}, named(file)) == plan_document(platform, CATALOGUE)["deploy"]["minutes"]
    assert minutes_of_change(platform, named(file), named(file)) == 0


VARIANTS: dict[str, dict[str, Any]] = {
    "an image with Transformer Engine and additions": {
        "image": {"add": ["transformer-engine"], "packages": {"apt": ["numactl"]}}
    },
    "two images on one base": {"images": {"extra": {"packages": {"apt": ["numactl"]}}}},
    "two images on two bases": {"images": {"extra": {"base": "devel"}}},
    "root squash": {"storage": {"lustre": {"capacity_tib": 2.4, "root_squash": {"uid": 65534, "gid": 65534}}}},
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_a_file_adds_takes_the_same_time_in_both(name: str, tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    group = {"name": "train", "instance_type": "g6e.8xlarge", "count": 2}
    plain: dict[str, Any] = {"region": "us-west-2", "zones": ["usw2-az1", "usw2-az2"], "node_groups": [group]}
    plain["kubernetes"] = {"admins": [ADMIN]}
    file.write_text(yaml.safe_dump(plain | VARIANTS[name]), encoding="utf-8")
    platform = load_platform(file)
    steps = {step.name: step.minutes for step in creation.creation_steps(platform, CATALOGUE)}
    assert minutes_of_change(platform, {}, named(file)) == plan_document(platform, CATALOGUE)["deploy"]["minutes"]
    match name:
        case "an image with Transformer Engine and additions":
            assert (steps[creation.IMAGE], steps[creation.IMAGE_ADDITIONS]) == (90, 10)
        case "two images on one base":
            assert steps["image extra"] == 15
        case "two images on two bases":
            assert steps["image extra"] == 30
        case _:
            assert steps[creation.ROOT_SQUASH] == 5


def instance_group(**properties: Any) -> ResourceDiff:
    wanted = {"Type": KIND, "Properties": {"InstanceCount": 2, **properties}}
    return ResourceDiff(Id("cluster", "HyperPod/train"), KIND, Action.CREATED, after=wanted)


def test_a_new_group_takes_as_long_as_the_checks_of_its_nodes() -> None:
    known = creation.durations()
    nodes, checks = known[creation.NODES].minutes, known[creation.DEEP_HEALTH_CHECKS].minutes
    created, checked = instance_group(), instance_group(OnStartDeepHealthChecks=["InstanceStress"])
    assert (minutes_of("cluster", created), minutes_of("cluster", checked)) == (nodes, nodes + checks)
    # In a cluster that exists, the checks follow the new nodes, and nothing else.
    platform = load_platform(next(file for file in EXAMPLES if file.stem == "hyperpod-slurm-p5en"))
    assert minutes_of_deploy([("cluster", checked)], {}, platform, CATALOGUE) == nodes + checks
