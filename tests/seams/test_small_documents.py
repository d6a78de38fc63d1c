"""Lifecycle policies of ECR, and configurations of EKS add-ons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.data_files import read_yaml
from tests.seams.resolved import Deployed, deployed, deployed_of
from tests.seams.seam import Planted, Seam
from tests.seams.shapes import REPRESENTATIVES, some_and_all_platforms

SCHEMAS = read_yaml(Path(__file__).with_name("documents_schema.yaml"))
LIFECYCLE_POLICY = "ecr-lifecycle-policy"
SHARED = "hyperpod-eks-shared"


@cache
def reader(name: str) -> Any:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    return jsonschema.Draft202012Validator(SCHEMAS[name])


def documents(platform: Deployed) -> Iterator[tuple[str, str]]:
    """Yield the name of the schema and the text of each document with a schema. An add-on without one is an error."""
    for repository in platform.of_type("AWS::ECR::Repository").values():
        if "LifecyclePolicy" in repository:
            yield LIFECYCLE_POLICY, repository["LifecyclePolicy"]["LifecyclePolicyText"]
    for addon in platform.of_type("AWS::EKS::Addon").values():
        if "ConfigurationValues" in addon:
            yield addon["AddonName"], addon["ConfigurationValues"]


def problems(name: str, text: str) -> list[str]:
    """Return what a schema has against a document."""
    try:
        document = json.loads(text)
    except ValueError as error:
        return [f"{name}: {error}"]
    found = [f"{name}: {error.json_path}: {error.message}" for error in reader(name).iter_errors(document)]
    if name == LIFECYCLE_POLICY and not found:
        priorities = [rule["rulePriority"] for rule in document["rules"]]
        of_any = [rule["rulePriority"] for rule in document["rules"] if rule["selection"]["tagStatus"] == "any"]
        if len(set(priorities)) < len(priorities) or of_any not in ([], [max(priorities)]):
            found.append(f"{name}: priorities are unique, and the one rule for any image comes last")
    return found


@pytest.mark.parametrize("names", some_and_all_platforms((*REPRESENTATIVES, "governance")))
def test_every_document_is_read(names: tuple[str, ...]) -> None:
    found = {each for platform in deployed(names).values() for each in documents(platform)}
    assert {name for name, _ in found} == set(SCHEMAS)
    assert [problem for name, text in sorted(found) for problem in problems(name, text)] == []


def test_two_rules_for_any_image_are_refused() -> None:
    texts = [text for name, text in documents(deployed_of(SHARED)) if name == LIFECYCLE_POLICY]
    rules = [rule for text in texts for rule in json.loads(text)["rules"]]
    rule = next(rule for rule in rules if rule["selection"]["tagStatus"] == "any")
    assert problems(LIFECYCLE_POLICY, json.dumps({"rules": [rule, {**rule, "rulePriority": 2}]}))


def in_document(error: str, name: str, old: str, new: str) -> Planted:
    """Plant an error in the first document of a platform that a schema is for."""

    def text() -> str:
        found = next(text for each, text in documents(deployed_of(SHARED)) if each == name)
        assert old in found
        return found

    return Planted(
        error,
        sound=lambda _: problems(name, text()),
        broken=lambda _: problems(name, text().replace(old, new, 1)),
    )


CNI, OBSERVABILITY = "vpc-cni", "amazon-sagemaker-hyperpod-observability"
SEAMS = (
    Seam(
        artifact="Lifecycle policies of ECR repositories",
        rendered_by="stacks/constructs/delivery/registry.py",
        reader="a JSON Schema of the documented properties",
        instead="ECR runs only in AWS, and botocore's model takes the policy as text.",
        planted=(
            in_document("the kind of count does not exist", LIFECYCLE_POLICY, "imageCountMoreThan", "imageCount"),
            in_document("the status of tags does not exist", LIFECYCLE_POLICY, '"any"', '"all"'),
            in_document("a rule has no priority", LIFECYCLE_POLICY, '"rulePriority":1,', ""),
        ),
    ),
    Seam(
        artifact="Configurations of EKS add-ons",
        rendered_by="stacks/constructs/eks/eks_addons.py",
        reader="a JSON Schema of the variables and keys that the add-ons' documentation and AWS's own module have",
        instead="EKS gives out the schema of an add-on only by its API.",
        planted=(
            in_document("a variable of the CNI is misspelled", CNI, "WARM_IP_TARGET", "WARM_IPS_TARGET"),
            in_document("a variable of the CNI is a number", CNI, '"5"', "5"),
            in_document("the kind of a metric is misspelled", OBSERVABILITY, "nodeMetrics", "nodesMetrics"),
            in_document("the level of a metric does not exist", OBSERVABILITY, '"BASIC"', '"FULL"'),
            in_document("the workspace has no address", OBSERVABILITY, "prometheusEndpoint", "endpoint"),
        ),
    ),
)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one(name: str) -> None:
    assert reader(name)
