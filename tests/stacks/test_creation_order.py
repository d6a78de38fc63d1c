"""A deploy waits for what it needs and, on the longest way through, for nothing else: read out of the templates."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.people import ADMIN
from tests.stacks.by_example import ByExample
from tests.synthesis import EXAMPLES, ROOT, assembly_in, stack_dependencies, templates_of
from trainway.diff.duration import step_of
from trainway.spec.deployment import creation
from trainway.spec.deployment.creation import creation_steps, critical_path, minutes
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.loader import load_platform

Node = tuple[str, str]

STAGES = {
    "Autoscaling": creation.AUTOSCALING,
    "Cluster": creation.CHARTS,
    "Image": creation.IMAGE,
    "Mirror": creation.MIRROR,
    "Scripts": creation.SCRIPTS,
    "Squash": creation.ROOT_SQUASH,
}


class Deployment:
    """The resources of an app's stacks, and what each waits for when all stacks are made that can be."""

    def __init__(self, platform: Path) -> None:
        assembly = assembly_in(platform)
        self._resources = {role: template["Resources"] for role, template in templates_of(platform).items()}
        self._after = stack_dependencies(assembly)
        self.step_of: dict[Node, str] = {}
        for role, resources in self._resources.items():
            for id, resource in resources.items():
                if step := _step(role, id, resource):
                    self.step_of[role, id] = step

    def waits_for(self, node: Node) -> Iterator[Node]:
        """What a resource names in its own stack, and all of the stacks that its own is after."""
        role, resources = node[0], self._resources[node[0]]
        for id in _named(resources[node[1]]):
            if id in resources:
                yield role, id
        for below in self._after[role]:
            yield from ((below, id) for id in self._resources[below])

    def nodes(self) -> Iterator[Node]:
        """Every resource of every stack."""
        for role, resources in self._resources.items():
            yield from ((role, id) for id in resources)


def _step(role: str, id: str, resource: dict[str, Any]) -> str | None:
    if resource["Type"] == "AWS::CloudFormation::WaitCondition":
        (stage,) = re.findall(r"Delivery([A-Z][a-z]+)Done", id)
        if stage == "Image" and role.startswith("image-"):
            return creation.step_of_image(role.removeprefix("image-"))
        # The base and the user's additions are parts of making the image.
        return None if stage in ("Base", "Additions") else STAGES[stage]
    # The bucket that another one's logs go to is a part of making that one.
    return None if "AccessLogs" in id else step_of(role, resource)


def _named(value: Any) -> Iterator[str]:
    """The logical ids that a resource names: in references, and as what it depends on."""
    match value:
        case {"Ref": str(id)}:
            yield id
        case {"Fn::GetAtt": [str(id), _]}:
            yield id
        case dict():
            depends = value.get("DependsOn", [])
            yield from [depends] if isinstance(depends, str) else depends
            for each in value.values():
                yield from _named(each)
        case list():
            for each in value:
                yield from _named(each)


@pytest.fixture(scope="module")
def deployments() -> Mapping[str, Deployment]:
    """Every example's, by its name."""
    return ByExample(Deployment)


def test_every_step_is_a_thing_that_is_made(example: Path, deployments: Mapping[str, Deployment]) -> None:
    """But for the checks that HyperPod's nodes go through after they are made."""
    steps = {step.name for step in creation_steps(load_platform(example), load_catalogue())}
    assert steps - {creation.DEEP_HEALTH_CHECKS} == set(deployments[example.stem].step_of.values())


def test_nothing_is_made_before_what_it_needs(example: Path, deployments: Mapping[str, Deployment]) -> None:
    deployment = deployments[example.stem]

    @cache
    def steps_before(node: Node) -> frozenset[str]:
        below = list(deployment.waits_for(node))
        own = {deployment.step_of[each] for each in below if each in deployment.step_of}
        return frozenset(own.union(*(steps_before(each) for each in below)))

    for step in creation_steps(load_platform(example), load_catalogue()):
        for node in (node for node, name in deployment.step_of.items() if name == step.name):
            assert set(step.after) <= steps_before(node), f"{node} is made without waiting for {step.after}"


def takes(deployment: Deployment, lasts: Mapping[str, int], late: Mapping[Node, Node] | None = None) -> int:
    """Minutes until everything is made; `late` is what waits for something more."""

    @cache
    def done(node: Node) -> int:
        below = [*deployment.waits_for(node), *([late[node]] if late and node in late else [])]
        begun = max((done(each) for each in below), default=0)
        return begun + lasts.get(deployment.step_of.get(node, ""), 0)

    return max(done(node) for node in deployment.nodes())


def test_a_deploy_takes_no_longer_than_what_it_needs(example: Path, deployments: Mapping[str, Deployment]) -> None:
    """No edge of the templates, within a stack or between stacks, makes the longest way longer."""
    deployment = deployments[example.stem]
    steps = creation_steps(load_platform(example), load_catalogue())
    made = [step for step in steps if step.name != creation.DEEP_HEALTH_CHECKS]
    lasts = {step.name: step.minutes for step in made}
    assert takes(deployment, lasts) == minutes(critical_path(made))


def test_a_platform_without_charts_copies_none(tmp_path: Path) -> None:
    file = tmp_path / "platform.yaml"
    plain = yaml.safe_load(EXAMPLES[0].read_text()) | {"kubernetes": {"trainer": False, "admins": [ADMIN]}}
    plain["node_groups"] = [{"name": "data", "instance_type": "m7i.8xlarge", "count": 1}]
    file.write_text(yaml.safe_dump(plain))
    deployment = Deployment(file)
    steps = {step.name for step in creation_steps(load_platform(file), load_catalogue())}
    assert steps == set(deployment.step_of.values())
    assert creation.MIRROR not in steps


def test_an_edge_that_nothing_needs_is_found(deployments: Mapping[str, Deployment]) -> None:
    deployment = deployments["hyperpod-eks-p5"]
    lasts = {name: duration.minutes for name, duration in creation.durations().items()}
    (hyperpod,) = [node for node, step in deployment.step_of.items() if step == creation.HYPERPOD]
    (image,) = [node for node, step in deployment.step_of.items() if step == creation.IMAGE]
    assert takes(deployment, lasts, late={hyperpod: image}) > takes(deployment, lasts)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_each_step_of_a_first_deploy_is_there_once(file: Path) -> None:
    names = [step.name for step in creation_steps(load_platform(file), load_catalogue())]
    assert len(names) == len(set(names))


def test_the_times_of_image_builds_are_longer_than_what_was_measured():
    """The time limits of the two builds are multiples of these times."""
    file = ROOT / "benchmarks/results/image_layers.json"
    measured = json.loads(file.read_text(encoding="utf-8"))["figures"]["nothing"]
    usual = creation.durations()
    whole = measured["base_seconds"] + measured["image_seconds"]
    assert usual[creation.IMAGE].minutes * 60 > whole
    assert usual[creation.IMAGE_ON_BASE].minutes * 60 > measured["image_seconds"]
