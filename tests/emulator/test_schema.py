"""A wrong property is refused for the right reason, whatever the resource type."""

from typing import Any

import pytest

from emulator.errors import UnrecognizedType
from emulator.registry.schema import load
from emulator.templates.intrinsics import KNOWN_AFTER_APPLY

REGION = "us-west-2"
GROUP = {"GroupDescription": "x"}


def problems(kind: str, properties: dict[str, Any]) -> list[str]:
    schema = load(kind, REGION)
    return [str(problem) for problem in schema.problems(schema.coerce(properties))]


@pytest.mark.parametrize(
    ("kind", "properties", "problem"),
    [
        ("AWS::S3::Bucket", {"BuketName": "x"},
         "#: extraneous key [BuketName] is not permitted (did you mean BucketName?)"),
        ("AWS::EC2::SecurityGroup", {}, "#: required key [GroupDescription] not found"),
        ("AWS::EC2::SecurityGroup", {**GROUP, "GroupId": "sg-1"},
         "#/GroupId: is read-only: AWS sets it, a template cannot"),
        ("AWS::EC2::SecurityGroup", {**GROUP, "VpcId": "vpc"},
         "#/VpcId: 'vpc' does not have the form of an AWS::EC2::VPC.Id"),
        ("AWS::EC2::SecurityGroup", {"GroupDescription": ["x"]},
         "#/GroupDescription: expected type: string, found: array ['x']"),
        ("AWS::FSx::FileSystem",
         {"FileSystemType": "LUSTRE", "SubnetIds": [], "LustreConfiguration": {"EfaEnabled": "si"}},
         "#/LustreConfiguration/EfaEnabled: expected type: boolean, found: string 'si'"),
        ("AWS::EKS::Nodegroup",
         {"ClusterName": "c", "NodeRole": "r", "Subnets": [], "Taints": [{"Effect": "NoSchedule"}]},
         "#/Taints/0/Effect: 'NoSchedule' is not one of ['NO_EXECUTE', 'NO_SCHEDULE', 'PREFER_NO_SCHEDULE']"),
        ("AWS::SSM::Parameter", {"Type": "String", "Value": "x", "Name": ""},
         "#/Name: expected minimum length: 1, found: 0"),
        ("AWS::SNS::Topic", {"KmsMasterKeyId": "a key"},
         "#/KmsMasterKeyId: 'a key' does not have the form of an AWS::KMS::Key.Arn"),
        ("AWS::CloudFormation::WaitCondition", {"Timeout": "never", "Counts": 1},
         "#: extraneous key [Counts] is not permitted (did you mean Count?)"),
        ("AWS::EC2::LaunchTemplate", {"LaunchTemplateData": {"NetworkInterfaces": [{"NetworkCardIdx": 1}]}},
         "#/LaunchTemplateData/NetworkInterfaces/0: extraneous key [NetworkCardIdx] is not permitted "
         "(did you mean NetworkCardIndex?)"),
    ],
)  # fmt: skip
def test_refused(kind: str, properties: dict[str, Any], problem: str) -> None:
    assert problem in problems(kind, properties)


def test_numbers_have_bounds() -> None:
    quota = {"ComputeQuotaResources": [{"InstanceType": "ml.p5.48xlarge", "Count": -1}]}
    found = problems("AWS::SageMaker::ComputeQuota", {"ComputeQuotaConfig": quota})
    assert any(item.startswith("#/ComputeQuotaConfig/ComputeQuotaResources/0/Count: -1 is less than") for item in found)


def test_an_alternative_is_refused_for_what_is_wrong_in_it() -> None:
    storage = {"FsxLustreConfig": {"DnsName": "not a name", "MountName": "abcdefgh"}}
    group = {
        "InstanceGroupName": "g",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 1,
        "InstanceStorageConfigs": [storage],
    }
    found = problems("AWS::SageMaker::Cluster", {"InstanceGroups": [group]})
    where = "#/InstanceGroups/0/InstanceStorageConfigs/0/FsxLustreConfig/DnsName"
    assert any(item.startswith(f"{where}: 'not a name' does not match the pattern") for item in found)


def test_scalars_are_coerced_as_cloudformation_does() -> None:
    schema = load("AWS::FSx::FileSystem", REGION)
    given = {"FileSystemType": "LUSTRE", "StorageCapacity": "4800", "LustreConfiguration": {"EfaEnabled": "true"}}
    coerced = schema.coerce(given)
    assert (coerced["StorageCapacity"], coerced["LustreConfiguration"]["EfaEnabled"]) == (4800, True)
    assert load("AWS::SSM::Parameter", REGION).coerce({"Value": True}) == {"Value": "true"}


def test_what_is_not_known_yet_is_not_judged() -> None:
    interface = {"VpcId": KNOWN_AFTER_APPLY, "ServiceName": "s3", "SubnetIds": [KNOWN_AFTER_APPLY, KNOWN_AFTER_APPLY]}
    assert problems("AWS::EC2::VPCEndpoint", interface) == []


def test_a_published_pattern_that_is_no_regular_expression_refuses_nothing() -> None:
    schema = load("AWS::Glue::UserDefinedFunction", REGION)
    [name] = [name for name, each in schema.document["properties"].items() if "\\uD800" in each.get("pattern", "")][:1]
    assert not [problem for problem in problems(schema.type_name, {name: "x"}) if name in problem]


def test_create_only_properties_ask_for_a_replacement() -> None:
    schema = load("AWS::SageMaker::ComputeQuota", REGION)
    old = {"Name": "n", "ComputeQuotaTarget": {"TeamName": "a", "FairShareWeight": 1}}
    assert schema.replacing(old, {"Name": "n", "ComputeQuotaTarget": {"TeamName": "a", "FairShareWeight": 2}}) == []
    assert schema.replacing(old, {"Name": "n", "ComputeQuotaTarget": {"TeamName": "b", "FairShareWeight": 1}}) == [
        "ComputeQuotaTarget.TeamName"
    ]


def test_a_type_that_no_region_has_is_unrecognized() -> None:
    with pytest.raises(UnrecognizedType, match=r"Unrecognized resource types: \[AWS::EC2::Hovercraft\]"):
        load("AWS::EC2::Hovercraft", REGION)


def test_a_type_that_only_cfn_lint_lacks_in_the_region_is_recognized() -> None:
    assert load("AWS::SageMaker::ClusterSchedulerConfig", REGION).type_name == "AWS::SageMaker::ClusterSchedulerConfig"
