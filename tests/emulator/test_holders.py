"""What something stands in cannot be deleted: EC2 refuses it, and so does the emulated CloudFormation."""

from __future__ import annotations

from typing import Any

VPC = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
SUBNET = {"Type": "AWS::EC2::Subnet", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "10.0.0.0/24"}}
RANGE = {"Type": "AWS::EC2::VPCCidrBlock", "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": "100.64.0.0/16"}}


def exported(stack: Any) -> dict[str, Any]:
    return {"Vpc": {"Value": {"Ref": "Vpc"}, "Export": {"Name": f"{stack.name}-vpc"}}}


def imported(stack: Any) -> dict[str, Any]:
    return {"Fn::ImportValue": f"{stack.name}-vpc"}


def endpoint(vpc: Any, subnet: Any) -> dict[str, Any]:
    properties = {
        "VpcId": vpc,
        "ServiceName": "com.amazonaws.us-west-2.ssm",
        "VpcEndpointType": "Interface",
        "SubnetIds": [subnet],
    }
    return {"Endpoint": {"Type": "AWS::EC2::VPCEndpoint", "Properties": properties}}


def test_an_update_leaves_behind_the_subnet_that_another_stack_uses(stack: Any, other_stack: Any) -> None:
    """CloudFormation tries to delete it, gives up, and says UPDATE_COMPLETE. The subnet is in no stack any more."""
    stack.deploy({"Vpc": VPC, "Subnet": SUBNET}, Outputs=exported(stack))
    subnet = stack.physical_id("Subnet")
    other_stack.deploy(endpoint(imported(stack), subnet))
    assert stack.deploy({"Vpc": VPC}, Outputs=exported(stack)) == "UPDATE_COMPLETE"
    assert "DependencyViolation" in stack.events("DELETE_FAILED")["Subnet"]
    other_stack.delete()


def test_in_one_stack_the_user_goes_first(stack: Any) -> None:
    stack.deploy({"Vpc": VPC, "Subnet": SUBNET, **endpoint({"Ref": "Vpc"}, {"Ref": "Subnet"})})
    assert stack.deploy({"Vpc": VPC}) == "UPDATE_COMPLETE"
    assert set(stack.events("DELETE_COMPLETE")) == {"Subnet", "Endpoint"}


def test_a_group_stays_while_an_interface_is_in_it(stack: Any, other_stack: Any) -> None:
    group = {"GroupDescription": "nodes", "VpcId": {"Ref": "Vpc"}}
    made = {"Vpc": VPC, "Subnet": SUBNET}
    held = {"Group": {"Type": "AWS::EC2::SecurityGroup", "Properties": group}}
    stack.deploy(made | held, Outputs=exported(stack))
    user = endpoint(imported(stack), stack.physical_id("Subnet"))
    user["Endpoint"]["Properties"]["SecurityGroupIds"] = [stack.physical_id("Group")]
    other_stack.deploy(user)
    assert stack.deploy(made, Outputs=exported(stack)) == "UPDATE_COMPLETE"
    assert "DependencyViolation" in stack.events("DELETE_FAILED")["Group"]
    other_stack.delete()


def test_a_range_stays_while_it_has_a_subnet(stack: Any, other_stack: Any) -> None:
    stack.deploy({"Vpc": VPC, "Range": RANGE}, Outputs=exported(stack))
    subnet = {"VpcId": imported(stack), "CidrBlock": "100.64.0.0/24"}
    other_stack.deploy({"Subnet": {"Type": "AWS::EC2::Subnet", "Properties": subnet}})
    stack.deploy({"Vpc": VPC}, Outputs=exported(stack))
    assert "DependencyViolation" in stack.events("DELETE_FAILED")["Range"]
