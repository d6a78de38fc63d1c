"""A role may do what is named to what is named: no wildcard in an action, and no `*` where a resource can be named."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.synthesis import Template, resources

# Its resource type is a dataset of CloudWatch's, which metrics of one's own are not in; the namespace is fixed instead.
WITHOUT_A_RESOURCE = {"cloudwatch:PutMetricData"}


@pytest.fixture
def allowed(example: Path, synthesized: dict[str, dict[str, Template]]) -> list[dict[str, Any]]:
    """Every statement of every role's own policy."""
    return [
        statement
        for template in synthesized[example.stem].values()
        for policy in resources(template, "AWS::IAM::Policy").values()
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def actions(statements: list[dict[str, Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Each action with the resources that it is allowed on."""
    for statement in statements:
        assert statement["Effect"] == "Allow"
        for action in listed(statement["Action"]):
            yield action, listed(statement["Resource"])


@cache
def reference() -> dict[str, Any]:
    """Return the actions of each service and what they can be limited to, by the Service Authorization Reference."""
    import cfnlint

    file = Path(cfnlint.__file__).parent / "data" / "AdditionalSpecs" / "Policies.json"
    loaded: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return loaded


def limits(action: str) -> list[str]:
    """The types of resource that an action can be limited to."""
    service, _, name = action.partition(":")
    found: list[str] = reference()[service]["Actions"][name.lower()].get("Resources", [])
    return found


def test_every_action_is_named_and_exists(allowed: list[dict[str, Any]]) -> None:
    for action, _ in actions(allowed):
        service, _, name = action.partition(":")
        assert "*" not in action
        assert name.lower() in reference()[service]["Actions"], action


def test_all_resources_are_allowed_only_where_none_can_be_named(allowed: list[dict[str, Any]]) -> None:
    checked = {action for action, on in actions(allowed) if "*" in on}
    assert checked
    assert {action for action in checked if limits(action)} <= WITHOUT_A_RESOURCE


def test_what_is_allowed_without_a_resource_is_limited_otherwise(allowed: list[dict[str, Any]]) -> None:
    for statement in allowed:
        if WITHOUT_A_RESOURCE & set(listed(statement["Action"])):
            assert statement["Condition"]["StringEquals"]["cloudwatch:namespace"]


def test_the_reference_knows_what_can_be_limited() -> None:
    assert limits("s3:GetObject") and limits("sagemaker:DescribeClusterNode") and not limits("ec2:DescribeSubnets")
