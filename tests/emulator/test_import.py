"""What exists joins a stack, where a change set asks for it and CloudFormation's conditions are met."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Client = Callable[[str], Any]


def kept(name: Any, policy: str | None = "Retain", **properties: Any) -> dict[str, Any]:
    definition = {"Type": "AWS::S3::Bucket", "Properties": {"BucketName": name, **properties}}
    return definition | ({"DeletionPolicy": policy} if policy else {})


def make_bucket(client: Client, name: str) -> None:
    s3 = client("s3")
    s3.create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": s3.meta.region_name})


def test_a_retained_bucket_joins_the_next_stack_with_what_is_in_it(stack: Any, client: Client) -> None:
    name, s3 = f"{stack.name}-data", client("s3")
    assert stack.deploy({"Data": kept(name)}) == "CREATE_COMPLETE"
    s3.put_object(Bucket=name, Key="k", Body=b"still here")
    assert stack.delete() == "DELETE_COMPLETE"

    described = stack.change_set({"Renamed": kept(name)}, ImportExistingResources=True)
    (change,) = (each["ResourceChange"] for each in described["Changes"])
    assert (change["Action"], change["PhysicalResourceId"]) == ("Import", name)
    assert described["ImportExistingResources"] is True
    client("cloudformation").execute_change_set(StackName=stack.name, ChangeSetName="change")
    assert stack.status() == "CREATE_COMPLETE"
    assert set(stack.events("IMPORT_COMPLETE")) == {"Renamed"}
    assert stack.physical_id("Renamed") == name
    assert s3.get_object(Bucket=name, Key="k")["Body"].read() == b"still here"
    owners = [item["stack"] for item in stack.emulator.resources() if item["physical_id"] == name]
    assert owners == [stack.name], "what was left behind is in a stack again, and counted once"


def test_a_bucket_that_somebody_made_joins_beside_what_is_new(stack: Any, client: Client) -> None:
    name = f"{stack.name}-mine"
    make_bucket(client, name)
    new = {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": {"Fn::GetAtt": ["Mine", "Arn"]}}}
    assert stack.deploy({"Mine": kept(name), "New": new}, ImportExistingResources=True) == "CREATE_COMPLETE"
    parameter = client("ssm").get_parameter(Name=stack.physical_id("New"))
    assert parameter["Parameter"]["Value"] == f"arn:aws:s3:::{name}"


def test_an_import_changes_nothing_about_what_it_takes_over(stack: Any, client: Client) -> None:
    name, s3 = f"{stack.name}-asis", client("s3")
    make_bucket(client, name)
    versioned = kept(name, VersioningConfiguration={"Status": "Enabled"})
    stack.deploy({"Data": versioned}, ImportExistingResources=True)
    assert "Status" not in s3.get_bucket_versioning(Bucket=name)


@pytest.mark.parametrize(
    ("policy", "asked", "dynamic"),
    [("Retain", False, False), (None, True, False), ("Retain", True, True)],
    ids=["not asked for", "not retained", "name not written out"],
)
def test_what_may_not_be_imported_is_in_the_way(
    policy: str | None, asked: bool, dynamic: bool, stack: Any, client: Client
) -> None:
    name = f"{stack.name}-taken"
    make_bucket(client, name)
    written: Any = {"Fn::Sub": name} if dynamic else name
    status = stack.deploy({"Data": kept(written, policy)}, ImportExistingResources=asked)
    assert status == "ROLLBACK_COMPLETE"
    assert "already exists" in stack.events("CREATE_FAILED")["Data"]


def test_what_is_in_a_stack_is_not_taken_from_it(stack: Any, other_stack: Any) -> None:
    name = f"{stack.name}-owned"
    stack.deploy({"Data": kept(name)})
    assert other_stack.deploy({"Data": kept(name)}, ImportExistingResources=True) == "ROLLBACK_COMPLETE"
    assert stack.physical_id("Data") == name


def test_a_rollback_leaves_what_it_imported(stack: Any, client: Client) -> None:
    name = f"{stack.name}-safe"
    make_bucket(client, name)
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
    impossible = {
        "Type": "AWS::EC2::Subnet",
        "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "192.168.0.0/24"},
        "DependsOn": ["Data"],
    }
    resources = {"Data": kept(name, "RetainExceptOnCreate"), "Vpc": vpc, "Subnet": impossible}
    assert stack.deploy(resources, ImportExistingResources=True) == "ROLLBACK_COMPLETE"
    assert name in {bucket["Name"] for bucket in client("s3").list_buckets()["Buckets"]}
