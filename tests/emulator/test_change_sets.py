"""A change set says what becomes of each resource and why, in the members that botocore's model of the API has."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.loaders
import pytest

from emulator.registry.schema import load

Client = Callable[[str], Any]
TOPIC = "AWS::SNS::Topic"


def parameter(value: Any, **rest: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **rest}


def topic(name: str, **rest: Any) -> dict[str, Any]:
    return {"Type": TOPIC, "Properties": {"TopicName": name}, **rest}


def changes(stack: Any, client: Client, resources: dict[str, Any], **rest: Any) -> dict[str, dict[str, Any]]:
    """Return the changes of an update by logical id, with the values of the properties."""
    stack.change_set(resources, "UPDATE", **rest)
    described = client("cloudformation").describe_change_set(
        StackName=stack.name, ChangeSetName="change", IncludePropertyValues=True
    )
    return {
        each["ResourceChange"]["LogicalResourceId"]: check_words(each["ResourceChange"])
        for each in described["Changes"]
    }


def check_words(change: dict[str, Any]) -> dict[str, Any]:
    """Check that every word of an answer is one that the API has, which botocore does not."""
    shapes = botocore.loaders.Loader().load_service_model("cloudformation", "service-2")["shapes"]

    def check(name: str, value: Any) -> None:
        shape = shapes[name]
        if shape["type"] == "structure":
            for key, item in value.items():
                check(shape["members"][key]["shape"], item)
        elif shape["type"] == "list":
            for item in value:
                check(shape["member"]["shape"], item)
        elif "enum" in shape:
            assert value in shape["enum"], name

    check("ResourceChange", change)
    return change


def test_what_a_policy_does_is_said(stack: Any, client: Client) -> None:
    kept = {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    stack.deploy({"Gone": topic("a"), "Kept": topic("b", **kept), "New": topic("c"), "NewKept": topic("d", **kept)})
    found = changes(stack, client, {"New": topic("e"), "NewKept": topic("f", **kept)})
    assert {name: change["PolicyAction"] for name, change in found.items()} == {
        "Gone": "Delete",
        "Kept": "Retain",
        "New": "ReplaceAndDelete",
        "NewKept": "ReplaceAndRetain",
    }
    assert found["New"]["Replacement"] == "True"
    assert json.loads(found["Gone"]["BeforeContext"])["Properties"] == {"TopicName": "a"}


def test_each_change_names_its_path_its_values_and_its_cause(stack: Any, client: Client) -> None:
    declared = {"Size": {"Type": "String", "Default": "1"}}

    def resources(name: str) -> dict[str, Any]:
        tagged = {**parameter("x"), "Metadata": {}}
        tagged["Properties"]["Tags"] = {"a": name, "b": {"Fn::GetAtt": ["Topic", "TopicName"]}}
        return {
            "Topic": topic(name),
            "Pointer": parameter({"Ref": "Topic"}),
            "Sized": parameter({"Ref": "Size"}),
            "Tagged": tagged,
        }

    stack.deploy(resources("one"), Parameters=declared)
    found = changes(stack, client, resources("two"), Parameters={"Size": {"Type": "String", "Default": "2"}})
    (sized,) = found["Sized"]["Details"]
    assert sized["ChangeSource"] == "ParameterReference"
    assert sized["CausingEntity"] == "Size"
    assert (sized["Target"]["BeforeValue"], sized["Target"]["AfterValue"]) == ("1", "2")
    (pointer,) = found["Pointer"]["Details"]
    assert (pointer["ChangeSource"], pointer["CausingEntity"]) == ("ResourceReference", "Topic")
    assert pointer["Evaluation"] == "Dynamic"
    edited, followed = found["Tagged"]["Details"]
    assert edited["Target"]["Path"] == "/Properties/Tags/a"
    assert (edited["ChangeSource"], edited["Evaluation"]) == ("DirectModification", "Static")
    assert followed["Target"]["Path"] == "/Properties/Tags/b"
    assert (followed["ChangeSource"], followed["CausingEntity"]) == ("ResourceAttribute", "Topic.TopicName")


def test_values_are_told_to_who_asks_for_them(stack: Any, client: Client) -> None:
    stack.deploy({"P": parameter("one")})
    stack.change_set({"P": parameter("two")}, "UPDATE")
    described = client("cloudformation").describe_change_set(StackName=stack.name, ChangeSetName="change")
    change = described["Changes"][0]["ResourceChange"]
    assert "BeforeContext" not in change
    assert "BeforeValue" not in change["Details"][0]["Target"]


@pytest.mark.parametrize(
    ("kind", "path", "recreation"),
    [
        ("AWS::EC2::VPC", ("CidrBlock",), "Always"),
        ("AWS::EC2::VPC", ("InstanceTenancy",), "Conditionally"),
        ("AWS::EC2::VPC", ("EnableDnsSupport",), "Never"),
        ("AWS::EKS::Nodegroup", ("InstanceTypes", "0"), "Always"),
    ],
)
def test_create_only_is_always_conditional_or_never(kind: str, path: tuple[str, ...], recreation: str) -> None:
    assert load(kind, "us-west-2").recreation(path) == recreation


def test_another_way_to_give_the_same_value_is_a_change(stack: Any, client: Client) -> None:
    """As when an import by export becomes one by output: the update is what ends the old reference."""
    stack.deploy({"T": topic("same"), "P": parameter("same")})
    other = {"T": topic("same"), "P": parameter({"Fn::Sub": "same"})}
    stack.change_set(other, "UPDATE")
    described = client("cloudformation").describe_change_set(StackName=stack.name, ChangeSetName="change")
    assert described["Status"] == "CREATE_COMPLETE"
    assert stack.deploy(other) == "UPDATE_COMPLETE"
    assert stack.change_set(other, "UPDATE")["Status"] == "FAILED"
