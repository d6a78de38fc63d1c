"""What a platform file changes of a deployed cluster is changed in place, and a protected cluster is not deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emulator import Emulator
from tests.synthesis import ROOT, all_resources, templates_of

SUBNETS = {"First": ("10.0.0.0/24", "usw2-az1"), "Second": ("10.0.1.0/24", "usw2-az2")}


def cluster(public_to: list[str], **changes: Any) -> dict[str, Any]:
    """Return a cluster with the endpoint as the templates have it, and two subnets for it."""
    ((_, properties),) = all_resources(templates_of(ROOT / "examples/eks-p5.yaml"), "AWS::EKS::Cluster").items()
    access = {"EndpointPublicAccess": bool(public_to), "PublicAccessCidrs": public_to}
    made = {
        "Name": properties["Name"],
        "RoleArn": "arn:aws:iam::123456789012:role/cluster",
        "ResourcesVpcConfig": {
            **properties["ResourcesVpcConfig"],
            **access,
            "SubnetIds": [{"Ref": name} for name in SUBNETS],
        },
        **changes,
    }
    subnets = {
        name: {
            "Type": "AWS::EC2::Subnet",
            "Properties": {"VpcId": {"Ref": "Vpc"}, "CidrBlock": cidr, "AvailabilityZoneId": zone},
        }
        for name, (cidr, zone) in SUBNETS.items()
    }
    vpc = {"Type": "AWS::EC2::VPC", "Properties": {"CidrBlock": "10.0.0.0/16"}}
    return {"Vpc": vpc, **subnets, "Cluster": {"Type": "AWS::EKS::Cluster", "Properties": made}}


def test_the_endpoint_opens_moves_and_closes_in_place(stack: Any, client: Callable[[str], Any]) -> None:
    assert stack.deploy(cluster([])) == "CREATE_COMPLETE"
    created = client("eks").describe_cluster(name="atlas")["cluster"]
    for public_to in (["198.51.100.0/24"], ["203.0.113.0/24", "198.51.100.7/32"], []):
        stack.change_set(cluster(public_to), "UPDATE")
        described = client("cloudformation").describe_change_set(StackName=stack.name, ChangeSetName="change")
        (change,) = described["Changes"]
        assert change["ResourceChange"]["Action"] == "Modify"
        assert change["ResourceChange"]["Replacement"] == "False"
        client("cloudformation").delete_change_set(StackName=stack.name, ChangeSetName="change")
        assert stack.deploy(cluster(public_to)) == "UPDATE_COMPLETE"
        now = client("eks").describe_cluster(name="atlas")["cluster"]
        assert (now["arn"], now["createdAt"]) == (created["arn"], created["createdAt"])
        assert now["resourcesVpcConfig"]["endpointPublicAccess"] is bool(public_to)
        assert now["resourcesVpcConfig"].get("publicAccessCidrs", []) == public_to


def test_a_protected_cluster_is_deleted_only_after_a_deploy_without_protection(
    stack: Any, client: Callable[[str], Any]
) -> None:
    guarded = cluster([], Name="guarded", DeletionProtection=True)
    assert stack.deploy(guarded) == "CREATE_COMPLETE"
    assert stack.delete() == "DELETE_FAILED"
    assert client("eks").describe_cluster(name="guarded")["cluster"]["status"] == "ACTIVE"
    assert "deletion protection" in stack.events("DELETE_FAILED")["Cluster"]


def test_protection_ends_in_place(stack: Any, client: Callable[[str], Any]) -> None:
    assert stack.deploy(cluster([], Name="ended", DeletionProtection=True)) == "CREATE_COMPLETE"
    created = client("eks").describe_cluster(name="ended")["cluster"]["createdAt"]
    assert stack.deploy(cluster([], Name="ended", DeletionProtection=False)) == "UPDATE_COMPLETE"
    assert client("eks").describe_cluster(name="ended")["cluster"]["createdAt"] == created
    assert stack.delete() == "DELETE_COMPLETE"


def test_a_control_plane_rises_when_its_nodes_have_its_version(stack: Any, client: Callable[[str], Any]) -> None:
    def raised(version: str, nodes: str) -> dict[str, Any]:
        template = cluster([], Name="rising", Version=version)
        template["Role"] = {
            "Type": "AWS::IAM::Role",
            "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
        }
        group = {
            "ClusterName": {"Ref": "Cluster"},
            "NodegroupName": "system",
            "NodeRole": {"Fn::GetAtt": ["Role", "Arn"]},
            "Subnets": [{"Ref": "First"}],
            "Version": nodes,
        }
        return template | {"Nodes": {"Type": "AWS::EKS::Nodegroup", "Properties": group}}

    def versions() -> tuple[str, str]:
        eks = client("eks")
        group = eks.describe_nodegroup(clusterName="rising", nodegroupName="system")["nodegroup"]
        return eks.describe_cluster(name="rising")["cluster"]["version"], group["version"]

    assert stack.deploy(raised("1.34", "1.34")) == "CREATE_COMPLETE"
    assert stack.deploy(raised("1.35", "1.34")) == "UPDATE_COMPLETE"
    assert stack.deploy(raised("1.36", "1.34")) == "UPDATE_ROLLBACK_COMPLETE"
    assert "Nodegroups system must be updated to match cluster version 1.35" in stack.events("UPDATE_FAILED")["Cluster"]
    assert versions() == ("1.35", "1.34")
    assert stack.deploy(raised("1.35", "1.36")) == "UPDATE_ROLLBACK_COMPLETE"
    assert stack.deploy(raised("1.35", "1.35")) == "UPDATE_COMPLETE"
    assert stack.deploy(raised("1.36", "1.35")) == "UPDATE_COMPLETE"
    assert versions() == ("1.36", "1.35")


def hyperpod(**changes: Any) -> dict[str, Any]:
    role = {
        "Type": "AWS::IAM::Role",
        "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": []}},
    }
    group = {
        "InstanceGroupName": "train",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 2,
        "ThreadsPerCore": 2,
        "ExecutionRole": {"Fn::GetAtt": ["Role", "Arn"]},
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-x/y", "OnCreate": "on_create.sh"},
        **changes,
    }
    properties = {"ClusterName": "checked", "InstanceGroups": [group]}
    return {"Role": role, "Cluster": {"Type": "AWS::SageMaker::Cluster", "Properties": properties}}


def test_hyperpod_is_not_updated_while_deep_health_checks_run(stack: Any, emulator: Emulator) -> None:
    def node(status: str) -> dict[str, Any]:
        return {
            "InstanceGroupName": "train",
            "InstanceId": "i-0123456789abcdef0",
            "InstanceType": "ml.p5.48xlarge",
            "LaunchTime": "2026-11-30T12:00:00+00:00",
            "InstanceStatus": {"Status": status},
        }

    assert stack.deploy(hyperpod()) == "CREATE_COMPLETE"
    emulator.hold(cluster_nodes={"checked": [node("DeepHealthCheckInProgress")]})
    assert stack.deploy(hyperpod(InstanceCount=3)) == "UPDATE_ROLLBACK_COMPLETE"
    emulator.hold(cluster_nodes={"checked": [node("Running")]})
    assert stack.deploy(hyperpod(InstanceCount=3)) == "UPDATE_COMPLETE"
    emulator.hold(cluster_nodes={})
    assert "while deep health checks run on i-0123456789abcdef0" in stack.events("UPDATE_FAILED")["Cluster"]


def test_what_stays_of_an_instance_group_is_not_updated(stack: Any) -> None:
    assert stack.deploy(hyperpod()) == "CREATE_COMPLETE"
    assert stack.deploy(hyperpod(InstanceCount=3)) == "UPDATE_COMPLETE"
    assert stack.deploy(hyperpod(InstanceCount=3, ThreadsPerCore=1)) == "UPDATE_ROLLBACK_COMPLETE"
    assert "ThreadsPerCore of instance group train cannot be updated" in stack.events("UPDATE_FAILED")["Cluster"]
