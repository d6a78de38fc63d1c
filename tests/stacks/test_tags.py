"""The tags of the platform file are on everything, and another tag replaces nothing and rolls no node."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache, partial
from graphlib import TopologicalSorter
from typing import Any

import boto3
import pytest

from emulator import Emulator, running
from emulator.registry.schema import load
from tests.representatives import with_representatives
from tests.synthesis import EXAMPLES, Template, assembly_in, stack_dependencies, templates_of
from trainway.spec.deployment.next_lock import next_lock
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.node_tags import with_tags_of_the_file
from trainway.spec.loader import load_platform
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
REGION = "us-west-2"
TAGS = {"Team": "research", "CostCenter": "1234"}
BY_NAME = {file.stem: file for file in EXAMPLES}
# A placement group's tags cannot change. A launch template's are of the template itself, and the CDK writes none there,
# nor on a compute quota.
LAUNCH_TEMPLATE = "AWS::EC2::LaunchTemplate"
UNTAGGED = {"AWS::EC2::PlacementGroup", LAUNCH_TEMPLATE, "AWS::SageMaker::ComputeQuota"}

Resources = dict[tuple[str, str], dict[str, Any]]


def all_of(templates: dict[str, Template]) -> Resources:
    return {(role, name): each for role, template in templates.items() for name, each in template["Resources"].items()}


@cache
def with_tags(example: str) -> Resources:
    return all_of(templates_of(tagged(load_platform(BY_NAME[example]))))


def tagged(platform: Platform) -> Platform:
    """Return a platform that was deployed without tags, and has them now."""
    return platform.with_lock(next_lock(platform, CATALOGUE)).model_copy(update={"tags": TAGS})


@cache
def without_tags(example: str) -> Resources:
    return all_of(templates_of(BY_NAME[example]))


def tags_of(resource: dict[str, Any], name: str) -> dict[str, str]:
    tags = resource.get("Properties", {}).get(name, {})
    return tags if isinstance(tags, dict) else {each["Key"]: each["Value"] for each in tags}


examples = pytest.mark.parametrize("example", with_representatives(BY_NAME, ("platform", "hyperpod-slurm-p5en")))


@examples
def test_everything_that_can_be_tagged_has_the_tags(example: str) -> None:
    tagged = 0
    for (role, name), resource in with_tags(example).items():
        schema = load(resource["Type"], REGION).document
        tagging = schema.get("tagging", {})
        if not tagging.get("taggable") or resource["Type"] in UNTAGGED:
            continue
        where = tagging.get("tagProperty", "/properties/Tags").removeprefix("/properties/")
        assert TAGS.items() <= tags_of(resource, where).items(), f"{role} {name} ({resource['Type']})"
        tagged += 1
    assert tagged > 40


@examples
def test_a_tag_replaces_nothing_and_rolls_no_node(example: str) -> None:
    before, after = without_tags(example), with_tags(example)
    assert set(before) == set(after)
    changed = set[str]()
    for key, new in after.items():
        old, kind = before[key], new["Type"]
        if old == new:
            continue
        changed.add(kind)
        properties = [each.get("Properties", {}) for each in (old, new)]
        assert load(kind, REGION).replacing(properties[0], properties[1]) == [], key
    # A node group follows the latest version of its launch template.
    assert changed.isdisjoint(UNTAGGED)


def tags_of_nodes(platform: Platform) -> dict[str, dict[str, str]]:
    """Return the tags of the instances by node group, after checking that volumes have the same."""
    found = {}
    for template in (each for each in all_of(templates_of(platform)).values() if each["Type"] == LAUNCH_TEMPLATE):
        instance, volume = template["Properties"]["LaunchTemplateData"]["TagSpecifications"]
        assert (instance["ResourceType"], volume["ResourceType"]) == ("instance", "volume")
        assert instance["Tags"] == volume["Tags"]
        tags = {each["Key"]: each["Value"] for each in instance["Tags"]}
        found[tags.pop("Name").partition("/")[2]] = tags
    return found


def test_nodes_have_the_tags_with_which_their_group_was_created_until_an_upgrade() -> None:
    untagged = load_platform(BY_NAME["eks-p5"])
    deployed = tagged(untagged)
    groups = [group.name for group in untagged.node_groups]
    more = (*deployed.node_groups, deployed.node_groups[0].model_copy(update={"name": "new"}))
    found = tags_of_nodes(deployed.model_copy(update={"node_groups": more}))
    assert found == {name: {} for name in ("system", *groups)} | {"new": TAGS}
    upgraded = deployed.with_lock(with_tags_of_the_file(deployed, deployed.lock, groups))
    assert tags_of_nodes(upgraded) == {"system": {}} | dict.fromkeys(groups, TAGS)
    assert next_lock(upgraded, CATALOGUE).node_tags == upgraded.lock.node_tags


def test_stacks_have_no_tags_which_cloudformation_would_hand_on() -> None:
    platform = tagged(load_platform(BY_NAME["platform"]))
    manifest = json.loads((assembly_in(platform) / "manifest.json").read_text(encoding="utf-8"))
    stacks = [each for each in manifest["artifacts"].values() if each["type"] == "aws:cloudformation:stack"]
    assert stacks and not any(each["properties"].get("tags") for each in stacks)


def types_with_fixed_tags() -> Iterator[str]:
    for example in ("platform", "hyperpod-eks-p5", "hyperpod-slurm-p5en"):
        for kind in {resource["Type"] for resource in without_tags(example).values()}:
            fixed = load(kind, REGION).document.get("createOnlyProperties", [])
            if any(each.startswith("/properties/Tags") for each in fixed):
                yield kind


def test_a_placement_group_is_the_only_type_whose_tags_cannot_change() -> None:
    assert set(types_with_fixed_tags()) == {"AWS::EC2::PlacementGroup"}


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with running() as started:
        yield started


def test_a_deployed_platform_gets_a_tag_in_place(emulator: Emulator) -> None:
    """By change sets of all stacks: no resource is replaced, added, or removed, and no launch template changes."""
    platform = load_platform(BY_NAME["platform"])
    session = boto3.Session(aws_access_key_id="x", aws_secret_access_key="x", region_name=platform.region)
    client = partial(session.client, endpoint_url=emulator.endpoint)
    client("ssm").put_parameter(Name="/cdk-bootstrap/hnb659fds/version", Type="String", Value="30")
    cloudformation, changes = client("cloudformation"), list[dict[str, Any]]()
    for kind, of in (("CREATE", platform), ("UPDATE", tagged(platform))):
        templates, order = templates_of(of), TopologicalSorter(stack_dependencies(assembly_in(of))).static_order()
        for role in order:
            name = f"{platform.name}-{role}"
            named = {"StackName": name, "ChangeSetName": f"set-{kind.lower()}"}
            body, may = json.dumps(templates[role]), ["CAPABILITY_NAMED_IAM"]
            cloudformation.create_change_set(**named, ChangeSetType=kind, TemplateBody=body, Capabilities=may)
            described = cloudformation.describe_change_set(**named)
            if kind == "UPDATE":
                changes += [each["ResourceChange"] for each in described["Changes"]]
            cloudformation.execute_change_set(**named)
            (stack,) = cloudformation.describe_stacks(StackName=name)["Stacks"]
            assert stack["StackStatus"] == f"{kind}_COMPLETE", stack
    assert len(changes) > 40
    assert {each["Action"] for each in changes} == {"Modify"}
    assert [each["LogicalResourceId"] for each in changes if each.get("Replacement") == "True"] == []
    assert {each["ResourceType"] for each in changes}.isdisjoint(UNTAGGED)
    # A node group follows the latest version of its launch template, and this is not among what changes.
    nodes = [each for each in changes if each["ResourceType"] == "AWS::EKS::Nodegroup"]
    names = {detail["Target"]["Name"] for each in nodes for detail in each["Details"]}
    assert "Tags" in names and names.isdisjoint({"LaunchTemplate", "Version", "ReleaseVersion"})
