"""Stacks are created, updated, rolled back and deleted as CloudFormation does it, through its own API."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

Client = Callable[[str], Any]


def bucket(**rest: Any) -> dict[str, Any]:
    return {"Type": "AWS::S3::Bucket", **rest}


def parameter(value: Any, **rest: Any) -> dict[str, Any]:
    return {"Type": "AWS::SSM::Parameter", "Properties": {"Type": "String", "Value": value}, **rest}


# moto refuses a subnet outside its VPC, which only creating it can show.
VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
IMPOSSIBLE = {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "192.168.0.0/24"}}


def test_a_stack_is_created_with_outputs_and_parameters(stack: Any, client: Client) -> None:
    client("ssm").put_parameter(Name=f"/{stack.name}/size", Type="String", Value="large")
    template = {
        "Parameters": {
            "Size": {"Type": "AWS::SSM::Parameter::Value<String>"},
            "Secret": {"Type": "String", "NoEcho": True},
            "Plain": {"Type": "Number", "Default": 7},
        },
        "Resources": {"P": parameter({"Fn::Sub": "${Size} ${Secret} ${Plain}"})},
        "Outputs": {"Value": {"Value": {"Fn::GetAtt": ["P", "Value"]}}},
    }
    given = {"Size": f"/{stack.name}/size", "Secret": "s3cret"}
    client("cloudformation").create_stack(
        StackName=stack.name,
        TemplateBody=json.dumps(template),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
    )
    assert stack.status() == "CREATE_COMPLETE"
    assert stack.outputs() == {"Value": "large s3cret 7"}
    shown = {item["ParameterKey"]: item["ParameterValue"] for item in stack.describe()["Parameters"]}
    assert shown == {"Size": f"/{stack.name}/size", "Secret": "****", "Plain": "7"}


def test_an_update_changes_in_place_what_it_can(stack: Any, client: Client) -> None:
    stack.deploy({"P": parameter("one")})
    before = stack.physical_id("P")
    assert stack.deploy({"P": parameter("two")}) == "UPDATE_COMPLETE"
    assert stack.physical_id("P") == before
    assert client("ssm").get_parameter(Name=before)["Parameter"]["Value"] == "two"


def test_a_create_only_property_replaces_new_first_and_dependents_follow(stack: Any, client: Client) -> None:
    def resources(name: str) -> dict[str, Any]:
        named = parameter("x")
        named["Properties"]["Name"] = f"/{stack.name}/{name}"
        return {"Named": named, "Pointer": parameter({"Ref": "Named"})}

    stack.deploy(resources("old"))
    change = stack.change_set(resources("new"), "UPDATE")["Changes"]
    replacement = {
        item["ResourceChange"]["LogicalResourceId"]: item["ResourceChange"]["Replacement"] for item in change
    }
    assert replacement == {"Named": "True", "Pointer": "False"}
    assert stack.deploy(resources("new")) == "UPDATE_COMPLETE"
    pointer = client("ssm").get_parameter(Name=stack.physical_id("Pointer"))
    assert pointer["Parameter"]["Value"] == f"/{stack.name}/new"
    with pytest.raises(ClientError, match="ParameterNotFound"):
        client("ssm").get_parameter(Name=f"/{stack.name}/old")


def test_a_custom_name_cannot_be_replaced_under_the_same_name(stack: Any) -> None:
    def entry(kind: str) -> dict[str, Any]:
        principal = f"arn:aws:iam::123456789012:role/{stack.name}"
        properties = {"ClusterName": "c", "PrincipalArn": principal, "Type": kind}
        return {"Entry": {"Type": "AWS::EKS::AccessEntry", "Properties": properties}}

    stack.deploy(entry("STANDARD"))
    assert stack.deploy(entry("EC2_LINUX")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "custom-named resource requires replacing" in stack.events("UPDATE_FAILED")["Entry"]


def test_two_stacks_cannot_own_the_same_name(stack: Any, other_stack: Any) -> None:
    addon = {"Type": "AWS::EKS::Addon", "Properties": {"ClusterName": stack.name, "AddonName": "vpc-cni"}}
    stack.deploy({"Addon": addon})
    assert other_stack.deploy({"Same": addon}) == "ROLLBACK_COMPLETE"
    assert "already exists" in other_stack.events("CREATE_FAILED")["Same"]


def test_no_change_is_said(stack: Any) -> None:
    stack.deploy({"B": bucket()})
    described = stack.change_set({"B": bucket()}, "UPDATE")
    assert described["Status"] == "FAILED"
    assert described["StatusReason"].startswith("The submitted information didn't contain changes.")


def test_an_unknown_type_is_refused_before_anything_exists(stack: Any) -> None:
    with pytest.raises(ClientError, match=r"Unrecognized resource types: \[AWS::EC2::Hovercraft\]"):
        stack.deploy({"B": bucket(), "H": {"Type": "AWS::EC2::Hovercraft"}})
    assert not stack.exists()
    assert stack.resources() == {}


def test_wrong_properties_fail_the_change_set_all_at_once_with_their_paths(stack: Any, client: Client) -> None:
    described = stack.change_set(
        {"B": bucket(Properties={"Nam": "x"}), "P": parameter("x", Properties={"Type": "Text"})}
    )
    assert described["Status"] == "FAILED"
    assert "AWS::EarlyValidation" in described["StatusReason"]
    events = client("cloudformation").describe_events(StackName=stack.name, ChangeSetName="change")["OperationEvents"]
    found = {(event["LogicalResourceId"], event["ValidationPath"]): event["ValidationStatusReason"] for event in events}
    assert found[("B", "/Resources/B/Properties")].startswith("#: extraneous key [Nam]")
    assert found[("P", "/Resources/P/Properties")] == "#: required key [Value] not found"
    assert "'Text' is not one of" in found[("P", "/Resources/P/Properties/Type")]
    with pytest.raises(ClientError, match="InvalidChangeSetStatus"):
        client("cloudformation").execute_change_set(StackName=stack.name, ChangeSetName="change")
    assert stack.resources() == {}


def test_an_attribute_that_the_type_does_not_have_is_refused(stack: Any) -> None:
    with pytest.raises(ClientError, match="resource B does not support attribute type Anr"):
        stack.deploy({"B": bucket(), "P": parameter({"Fn::GetAtt": ["B", "Anr"]})})


def test_a_failed_create_rolls_back_and_reports(stack: Any, client: Client) -> None:
    assert stack.deploy({"B": bucket(), "Vpc": VPC, "Subnet": {**IMPOSSIBLE, "DependsOn": "B"}}) == "ROLLBACK_COMPLETE"
    assert "192.168.0.0/24" in stack.events("CREATE_FAILED")["Subnet"]
    assert stack.events("ROLLBACK_IN_PROGRESS")[stack.name].startswith(
        "The following resource(s) failed to create: [Subnet]."
    )
    assert set(stack.events("DELETE_COMPLETE")) == {"B", "Vpc"}
    assert stack.resources() == {}
    assert not [item for item in client("s3").list_buckets()["Buckets"] if item["Name"].startswith(stack.name)]


def test_a_failed_update_restores_what_was(stack: Any, client: Client) -> None:
    stack.deploy({"P": parameter("before"), "Vpc": VPC})
    before = stack.resources()
    status = stack.deploy(
        {"P": parameter("after"), "New": bucket(), "Vpc": VPC, "Subnet": {**IMPOSSIBLE, "DependsOn": "P"}}
    )
    assert status == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.resources().keys() == before.keys()
    assert client("ssm").get_parameter(Name=before["P"]["physical_id"])["Parameter"]["Value"] == "before"


def test_an_export_in_use_can_neither_be_deleted_nor_changed(stack: Any, other_stack: Any, client: Client) -> None:
    def exporting(value: str) -> dict[str, Any]:
        return {"Out": {"Value": value, "Export": {"Name": f"{stack.name}-out"}}}

    stack.deploy({"B": bucket()}, Outputs=exporting("1"))
    other_stack.deploy({"P": parameter({"Fn::ImportValue": f"{stack.name}-out"})})
    assert client("cloudformation").list_imports(ExportName=f"{stack.name}-out")["Imports"] == [other_stack.name]

    assert stack.deploy({"B": bucket()}, Outputs=exporting("2")) == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.delete() == "DELETE_FAILED"
    assert f"in use by {other_stack.name}" in stack.describe()["StackStatusReason"]
    assert stack.physical_id("B")

    assert other_stack.delete() == "DELETE_COMPLETE"
    assert stack.delete() == "DELETE_COMPLETE"


def test_delete_leaves_only_what_is_retained(stack: Any, client: Client) -> None:
    stack.deploy({"Kept": bucket(DeletionPolicy="Retain"), "Gone": bucket(), "Vpc": VPC})
    kept, gone, vpc = (stack.physical_id(name) for name in ("Kept", "Gone", "Vpc"))
    assert stack.delete() == "DELETE_COMPLETE"
    assert {name: item["status"] for name, item in stack.resources().items()} == {"Kept": "DELETE_SKIPPED"}
    names = {item["Name"] for item in client("s3").list_buckets()["Buckets"]}
    assert kept in names
    assert gone not in names
    with pytest.raises(ClientError, match="NotFound"):
        client("ec2").describe_vpcs(VpcIds=[vpc])


def test_a_replaced_resource_with_the_retain_policy_stays(stack: Any, client: Client) -> None:
    def named(name: str) -> dict[str, Any]:
        return {"B": bucket(Properties={"BucketName": f"{stack.name}-{name}"}, UpdateReplacePolicy="Retain")}

    stack.deploy(named("old"))
    stack.deploy(named("new"))
    names = {item["Name"] for item in client("s3").list_buckets()["Buckets"]}
    assert {f"{stack.name}-old", f"{stack.name}-new"} <= names


def test_what_cannot_be_deleted_fails_the_deletion(stack: Any, client: Client) -> None:
    stack.deploy({"B": bucket(), "P": parameter({"Ref": "B"})})
    name = stack.physical_id("B")
    client("s3").put_object(Bucket=name, Key="k", Body=b"x")
    assert stack.delete() == "DELETE_FAILED"
    assert "not empty" in stack.events("DELETE_FAILED")["B"]
    assert set(stack.resources()) == {"B"}
    client("s3").delete_object(Bucket=name, Key="k")
    assert stack.delete() == "DELETE_COMPLETE"


def test_termination_protection(stack: Any, client: Client) -> None:
    stack.deploy({"B": bucket()})
    client("cloudformation").update_termination_protection(StackName=stack.name, EnableTerminationProtection=True)
    with pytest.raises(ClientError, match="TerminationProtection is enabled"):
        stack.delete()
    client("cloudformation").update_termination_protection(StackName=stack.name, EnableTerminationProtection=False)
    assert stack.delete() == "DELETE_COMPLETE"


def test_conditions_decide_what_exists(stack: Any) -> None:
    conditions = {"Never": {"Fn::Equals": ["a", "b"]}}
    stack.deploy({"B": bucket(), "N": bucket(Condition="Never")}, Conditions=conditions)
    assert set(stack.resources()) == {"B"}


def test_iam_resources_need_the_capability(stack: Any, client: Client) -> None:
    role = {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {}}}
    with pytest.raises(ClientError, match="InsufficientCapabilities"):
        client("cloudformation").create_stack(StackName=stack.name, TemplateBody=json.dumps({"Resources": {"R": role}}))


def test_an_unknown_action_is_refused_by_name(client: Client) -> None:
    with pytest.raises(ClientError, match=r"NotEmulated.*DetectStackDrift"):
        client("cloudformation").detect_stack_drift(StackName="any")


def _handle_of(stack: Any) -> str:
    return str(stack.outputs()["Url"])


WAITING = {"Handle": {"Type": "AWS::CloudFormation::WaitConditionHandle"}}
URL = {"Url": {"Value": {"Ref": "Handle"}}}
CONDITION = {
    "Type": "AWS::CloudFormation::WaitCondition",
    "Properties": {"Handle": {"Ref": "Handle"}, "Timeout": "60", "Count": 1},
}


def _signal(url: str, **signal: str) -> int:
    request = urllib.request.Request(url, method="PUT", data=json.dumps(signal).encode())
    with urllib.request.urlopen(request) as response:
        return int(response.status)


def test_a_wait_condition_without_a_signal_says_that_it_is_a_record(stack: Any) -> None:
    data = {"Data": {"Value": {"Fn::GetAtt": ["Done", "Data"]}}}
    stack.deploy({**WAITING, "Done": CONDITION}, Outputs=URL | data)
    assert json.loads(stack.outputs()["Data"])["digest"].startswith("sha256:")
    assert {item["depth"] for item in stack.resources().values()} == {"record"}


def test_a_wait_condition_hands_on_the_signal_that_came_before(stack: Any) -> None:
    stack.deploy(WAITING, Outputs=URL)
    assert _signal(_handle_of(stack), Status="SUCCESS", Reason="built", UniqueId="image", Data="sha256:1") == 200
    stack.deploy({**WAITING, "Done": CONDITION}, Outputs=URL | {"D": {"Value": {"Fn::GetAtt": ["Done", "Data"]}}})
    assert json.loads(stack.outputs()["D"]) == {"image": "sha256:1"}


def test_a_failure_signal_fails_the_deployment_with_its_reason(stack: Any) -> None:
    stack.deploy(WAITING, Outputs=URL)
    _signal(_handle_of(stack), Status="FAILURE", Reason="no space left on device", UniqueId="image", Data="")
    assert stack.deploy({**WAITING, "Done": CONDITION}, Outputs=URL) == "UPDATE_ROLLBACK_COMPLETE"
    assert "no space left on device" in stack.events("CREATE_FAILED")["Done"]


def test_a_malformed_signal_is_refused(stack: Any) -> None:
    stack.deploy(WAITING, Outputs=URL)
    with pytest.raises(urllib.error.HTTPError, match="400"):
        _signal(_handle_of(stack), Status="MAYBE", Reason="", UniqueId="", Data="")
