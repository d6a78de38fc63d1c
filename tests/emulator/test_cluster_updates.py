"""What a platform file changes of a deployed cluster is changed in place, and a protected cluster is not deleted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
