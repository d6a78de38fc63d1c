"""CloudFormation templates, read whole by cfn-lint with the registry's schemas, and by the CDK's own validation."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

from tests.representatives import with_representatives
from tests.seams.seam import Planted, Reading, Seam
from tests.seams.shapes import platforms
from tests.seams.stacks import stacks_of
from tests.synthesis import EXAMPLES, ROOT, Template, golden_text


@cache
def rules() -> Any:
    """Return cfn-lint's rules, which take longer to load than a template takes to read."""
    from cfnlint.config import ConfigMixIn
    from cfnlint.runner import Runner

    return Runner(ConfigMixIn()).rules


@cache
def lint(template: str, region: str) -> tuple[str, ...]:
    """Return cfn-lint's errors and warnings about a template in one Region."""
    from cfnlint import api

    return tuple(f"{match.rule.id} {match.message}" for match in api.lint(template, rules(), [region]))


EXAMPLE_NAMES = {file.stem for file in EXAMPLES}
SETS = {
    "platform.yaml": {"platform"},
    "examples": EXAMPLE_NAMES - {"platform"},
    "shapes": set(platforms()) - EXAMPLE_NAMES,
}
each_set = pytest.mark.parametrize("names", with_representatives(SETS, ("platform.yaml",)))


def distinct(names: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield a name, the text, and the Region of every template of these platforms that differs from those before it."""
    read = set()
    for name in names:
        region = platforms()[name].region
        for role, template in stacks_of(name).items():
            # Hashes of the delivered content differ between shapes whose templates do not.
            if (key := (golden_text(template), region)) not in read:
                read.add(key)
                yield f"{name}/{role}", json.dumps(template, sort_keys=True), region


@each_set
def test_cfn_lint_finds_nothing_in_any_template(names: str, tmp_path: Path) -> None:
    # One process for all templates of a Region: its rules keep what they have read of the schemas.
    files: dict[str, list[Path]] = {}
    for name, text, region in distinct(sorted(SETS[names])):
        file = tmp_path / f"{name.replace('/', '.')}.template.json"
        file.write_text(text, encoding="utf-8")
        files.setdefault(region, []).append(file)
    cfn_lint = str(Path(sys.executable).with_name("cfn-lint"))
    for region, written in files.items():
        command = [cfn_lint, "--regions", region, "--", *map(str, written)]
        linted = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (linted.returncode, linted.stdout) == (0, ""), linted.stdout + linted.stderr


@pytest.mark.exhaustive
@each_set
def test_the_cdks_validation_finds_nothing_in_any_template(names: str, tmp_path: Path) -> None:
    # Its runtime reads the switch when it starts. By itself it reports warnings, with which `cdk synth` succeeds.
    environment = {**os.environ, "CDK_VALIDATION": "true", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.seams.cdk_validation", str(tmp_path), *sorted(SETS[names])]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT, timeout=540)
    assert ran.returncode == 0, ran.stderr
    said = json.loads(ran.stdout)
    planted = said.pop("planted")
    assert planted, "the validation did not run"
    assert set(said) == SETS[names]
    assert not any(said.values()), said


def reading(role: str, change: Callable[[Template], None] | None, example: str = "hyperpod-eks-shared") -> Reading:
    """Return a reading of one of an example's templates after a change."""

    def read(_: Path) -> tuple[str, ...]:
        template = copy.deepcopy(stacks_of(example)[role])
        if change:
            change(template)
        return lint(json.dumps(template, sort_keys=True), platforms()[example].region)

    return read


def planted(error: str, role: str, change: Callable[[Template], None], example: str = "hyperpod-eks-shared") -> Planted:
    return Planted(error, sound=reading(role, None, example), broken=reading(role, change, example))


def properties_of(template: Template, kind: str) -> dict[str, object]:
    """Return the properties of the template's first resource of a type."""
    found: dict[str, object] = next(
        each["Properties"] for each in template["Resources"].values() if each["Type"] == kind
    )
    return found


def without(kind: str, name: str, template: Template) -> None:
    del properties_of(template, kind)[name]


def with_(kind: str, changes: Mapping[str, object], template: Template) -> None:
    properties_of(template, kind).update(changes)


def unknown_type(template: Template) -> None:
    template["Resources"]["Unknown"] = {"Type": "AWS::SageMaker::ClusterSchedulerConfigs", "Properties": {}}


def unresolved(template: Template) -> None:
    properties_of(template, "AWS::EKS::Nodegroup")["ClusterName"] = {"Fn::ImportValue": {"Ref": "Nothing"}}


SEAMS = (
    Seam(
        artifact="CloudFormation templates",
        rendered_by="stacks",
        reader="cfn-lint, with the registry's schemas of the platform's Region, and the CDK's template validation",
        instead="CloudFormation runs only in AWS. cfn-lint reads the schemas that CloudFormation publishes.",
        planted=(
            planted(
                "a node group has no node role",
                "control-plane",
                partial(without, "AWS::EKS::Nodegroup", "NodeRole"),
            ),
            planted(
                "a node group's capacity type does not exist",
                "control-plane",
                partial(with_, "AWS::EKS::Nodegroup", {"CapacityType": "CHEAP"}),
            ),
            planted(
                "a property of the HyperPod cluster is misspelled",
                "cluster",
                partial(with_, "AWS::SageMaker::Cluster", {"NodeRecover": "Automatic"}),
            ),
            planted(
                "an instance type of a HyperPod group does not exist",
                "cluster",
                partial(with_, "AWS::SageMaker::Cluster", {"InstanceGroups": [{"InstanceType": "ml.p5.47xlarge"}]}),
            ),
            planted("a reference names no resource", "control-plane", unresolved),
            planted("a resource type does not exist", "cluster", unknown_type),
        ),
    ),
)
