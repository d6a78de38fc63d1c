"""Templates are read as CloudFormation reads them, and resources come after what they need."""

from typing import Any

import pytest

from emulator.errors import CloudFormationError
from emulator.templates.template import creation_order, parse


def bucket(**properties: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", "Properties": properties}


def test_resources_come_after_what_they_refer_to_or_depend_on() -> None:
    order = creation_order(
        {
            "ByDependsOn": {**bucket(), "DependsOn": "BySub"},
            "BySub": bucket(BucketName={"Fn::Sub": "x-${ByGetAtt.Arn}"}),
            "ByGetAtt": bucket(BucketName={"Fn::GetAtt": ["ByRef", "Arn"]}),
            "ByRef": bucket(BucketName={"Fn::If": ["Yes", {"Ref": "First"}, "x"]}),
            "First": bucket(),
        }
    )
    assert order == ["First", "ByRef", "ByGetAtt", "BySub", "ByDependsOn"]


def test_a_circle_is_refused_by_name() -> None:
    with pytest.raises(CloudFormationError, match=r"Circular dependency between resources: \['A', 'B'\]"):
        creation_order({"A": bucket(BucketName={"Ref": "B"}), "B": bucket(BucketName={"Ref": "A"})})


def test_yaml_short_functions_and_dates() -> None:
    template = parse(
        """
        AWSTemplateFormatVersion: 2010-09-09
        Conditions: {Never: !Equals [a, b]}
        Resources:
          Role:
            Type: AWS::IAM::Role
            Properties:
              AssumeRolePolicyDocument: {Version: 2012-10-17}
              Path: !Sub "/${AWS::Region}/"
              Description: !If [Never, !Ref AWS::NoValue, !GetAtt Other.Arn]
          Other: {Type: AWS::S3::Bucket}
        """
    )
    properties = template.resources["Role"]["Properties"]
    assert properties["AssumeRolePolicyDocument"] == {"Version": "2012-10-17"}
    assert properties["Path"] == {"Fn::Sub": "/${AWS::Region}/"}
    assert properties["Description"] == {"Fn::If": ["Never", {"Ref": "AWS::NoValue"}, {"Fn::GetAtt": "Other.Arn"}]}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("{}", "At least one Resources member"),
        ('{"Resources": {"A": {}}}', "'Type' is required"),
        ('{"Resources": {"A": {"Type": "AWS::S3::Bucket", "Propertys": {}}}}', "Propertys"),
        ('{"Resources": {"A": {"Type": "AWS::S3::Bucket"}}, "Resorces": {}}', "Resorces"),
        (
            '{"Resources": {"A": {"Type": "AWS::S3::Bucket", "DependsOn": "B"}}}',
            r"Unresolved resource dependencies \[B\]",
        ),
        ('{"Resources": {"A": {"Type": "Custom::Thing"}}}', "runs no Lambda"),
        ('{"Resources": {"A": {"Type": "AWS::S3::Bucket"}}, "Transform": "AWS::Serverless"}', "macro"),
        ("{nonsense", "not well-formed"),
    ],
)
def test_what_is_malformed_is_refused(body: str, message: str) -> None:
    with pytest.raises(CloudFormationError, match=message):
        parse(body)
