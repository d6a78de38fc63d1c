"""Every intrinsic function gives what the CloudFormation reference says."""

from typing import Any

import pytest

from emulator.errors import CloudFormationError, NotEmulated
from emulator.templates.intrinsics import KNOWN_AFTER_APPLY, Scope, resolve

SCOPE = Scope(
    parameters={"Count": "3", "Zones": ["a", "b"], "AWS::Region": "us-west-2"},
    mappings={"Sizes": {"us-west-2": {"large": "p5.48xlarge"}}},
    conditions={
        "IsThree": {"Fn::Equals": [{"Ref": "Count"}, 3]},
        "IsNotThree": {"Fn::Not": [{"Condition": "IsThree"}]},
        "Both": {"Fn::And": [{"Condition": "IsThree"}, {"Fn::Equals": ["x", "x"]}]},
        "Either": {"Fn::Or": [{"Condition": "IsNotThree"}, {"Condition": "Both"}]},
    },
    resource_ids=frozenset({"Vpc"}),
    ref=lambda logical_id: f"id-of-{logical_id}",
    attribute=lambda logical_id, name: f"{logical_id}'s {name}",
    import_value=lambda name: f"imported {name}",
    availability_zones=lambda region: [f"{region}a", f"{region}b"],
    ssm_parameter=lambda name: f"value of {name}",
)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Count"}, "3"),
        ({"Ref": "Vpc"}, "id-of-Vpc"),
        ({"Fn::GetAtt": ["Vpc", "CidrBlock"]}, "Vpc's CidrBlock"),
        ({"Fn::GetAtt": "Vpc.Nested.Name"}, "Vpc's Nested.Name"),
        ({"Fn::Sub": "${AWS::Region}/${Vpc}/${Vpc.Arn}/${!Literal}"}, "us-west-2/id-of-Vpc/Vpc's Arn/${Literal}"),
        ({"Fn::Sub": ["${A}-${Count}", {"A": {"Ref": "Vpc"}}]}, "id-of-Vpc-3"),
        ({"Fn::Join": [":", ["a", {"Ref": "Count"}, True]]}, "a:3:true"),
        ({"Fn::Select": [1, {"Ref": "Zones"}]}, "b"),
        ({"Fn::Select": ["0", {"Fn::Split": ["/", "x/y"]}]}, "x"),
        ({"Fn::If": ["IsThree", "yes", "no"]}, "yes"),
        ({"Fn::If": ["Either", "yes", "no"]}, "yes"),
        ({"Fn::If": ["IsNotThree", "yes", "no"]}, "no"),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "AWS::Region"}, "large"]}, "p5.48xlarge"),
        ({"Fn::FindInMap": ["Sizes", "nowhere", "large", {"DefaultValue": "none"}]}, "none"),
        ({"Fn::ImportValue": {"Fn::Sub": "vpc-${Count}"}}, "imported vpc-3"),
        ({"Fn::GetAZs": ""}, ["us-west-2a", "us-west-2b"]),
        ({"Fn::Base64": "hello"}, "aGVsbG8="),
        ({"Fn::Cidr": ["10.0.0.0/16", 2, 12]}, ["10.0.0.0/20", "10.0.16.0/20"]),
        ("{{resolve:ssm:/a/b}}", "value of /a/b"),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [1, {"Ref": "AWS::NoValue"}]}, {"b": [1]}),
        ({"Condition": {"StringEquals": {}}}, {"Condition": {"StringEquals": {}}}),
    ],
)
def test_function(value: Any, expected: Any) -> None:
    assert resolve(value, SCOPE) == expected


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ({"Ref": "Nobody"}, CloudFormationError, r"Unresolved resource dependencies \[Nobody\]"),
        ({"Fn::Nonsense": 1}, CloudFormationError, "Unrecognized function Fn::Nonsense"),
        ({"Fn::Transform": {"Name": "AWS::Include"}}, NotEmulated, "macro"),
        ({"Fn::Select": [2, ["a", "b"]]}, CloudFormationError, "nonexistent value at index 2"),
        ({"Fn::If": ["Nobody", 1, 2]}, CloudFormationError, "Unresolved condition Nobody"),
        ({"Fn::FindInMap": ["Sizes", "nowhere", "large"]}, CloudFormationError, "Sizes::nowhere::large"),
        ({"Fn::Cidr": ["10.0.0.0/24", 3, 7]}, CloudFormationError, "does not hold 3 blocks"),
        ({"Fn::Join": ["", [{"a": 1}]]}, CloudFormationError, "expected a string"),
        ("{{resolve:secretsmanager:x}}", NotEmulated, "only ssm"),
    ],
)
def test_refusal(value: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve(value, SCOPE)


def test_a_text_that_is_not_known_yet_can_be_joined_split_and_selected_from() -> None:
    arn = {"Fn::Join": [":", ["arn", KNOWN_AFTER_APPLY]]}
    assert KNOWN_AFTER_APPLY in resolve({"Fn::Select": [5, {"Fn::Split": ["/", arn]}]}, SCOPE)
