"""AWS makes rules, log groups, and roles by itself, refuses a second rule, and leaves what is no part of a stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.emulator.test_cluster_updates import cluster
from tests.emulator.test_services import NETWORK, get_att, ref, resource

Client = Callable[[str], Any]


def test_eks_lets_a_cluster_talk_to_itself_and_a_second_rule_is_refused(stack: Any, client: Client) -> None:
    made = cluster([], Name="talks")
    assert stack.deploy(made) == "CREATE_COMPLETE"
    group_id = client("eks").describe_cluster(name="talks")["cluster"]["resourcesVpcConfig"]["clusterSecurityGroupId"]
    rules = client("ec2").describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group_id]}])
    assert sorted(
        (each["IsEgress"], each.get("CidrIpv4") or each["ReferencedGroupInfo"]["GroupId"])
        for each in rules["SecurityGroupRules"]
    ) == [(False, group_id), (True, "0.0.0.0/0"), (True, group_id)]
    group = get_att("Cluster", "ClusterSecurityGroupId")
    to_itself = {"GroupId": group, "DestinationSecurityGroupId": group, "IpProtocol": "-1"}
    rule = resource("AWS::EC2::SecurityGroupEgress", **to_itself, Description="EFA: everything to the group itself")
    assert stack.deploy(made | {"ToItself": rule}) == "UPDATE_ROLLBACK_COMPLETE"
    assert "InvalidPermission.Duplicate" in stack.events("CREATE_FAILED")["ToItself"]


def test_a_rule_is_the_same_with_another_description(stack: Any) -> None:
    inward = NETWORK["In"]["Properties"]
    again = {"Type": NETWORK["In"]["Type"], "Properties": {**inward, "Description": "the same"}, "DependsOn": "In"}
    assert stack.deploy(NETWORK | {"Again": again}) == "ROLLBACK_COMPLETE"
    assert "InvalidPermission.Duplicate" in stack.events("CREATE_FAILED")["Again"]


def test_a_new_group_lets_everything_out_unless_it_has_rules_of_its_own(stack: Any, client: Client) -> None:
    nowhere = [{"IpProtocol": "-1", "CidrIp": "127.0.0.1/32"}]
    of_vpc = {"GroupDescription": "nodes", "VpcId": ref("Vpc")}
    made = {
        "Vpc": NETWORK["Vpc"],
        "Plain": resource("AWS::EC2::SecurityGroup", **of_vpc),
        "Closed": resource("AWS::EC2::SecurityGroup", **of_vpc, SecurityGroupEgress=nowhere),
    }
    assert stack.deploy(made) == "CREATE_COMPLETE"
    for name, outward in (("Plain", "0.0.0.0/0"), ("Closed", "127.0.0.1/32")):
        asked = [{"Name": "group-id", "Values": [stack.physical_id(name)]}]
        (rule,) = client("ec2").describe_security_group_rules(Filters=asked)["SecurityGroupRules"]
        assert (rule["IsEgress"], rule["CidrIpv4"]) == (True, outward)


def behind_nat() -> dict[str, Any]:
    """Return a NAT gateway with an address of the stack, in a subnet of sixteen addresses."""
    address = get_att("Address", "AllocationId")
    return {
        "Vpc": NETWORK["Vpc"],
        "Subnet": resource("AWS::EC2::Subnet", VpcId=ref("Vpc"), CidrBlock="10.0.0.0/28"),
        "Address": resource("AWS::EC2::EIP", Domain="vpc"),
        "Nat": resource("AWS::EC2::NatGateway", SubnetId=ref("Subnet"), AllocationId=address),
    }


def test_a_nat_gateway_takes_an_address_of_its_subnet_beside_the_five_of_aws(stack: Any, client: Client) -> None:
    def free() -> int:
        (subnet,) = client("ec2").describe_subnets(SubnetIds=[stack.physical_id("Subnet")])["Subnets"]
        return int(subnet["AvailableIpAddressCount"])

    made = behind_nat()
    assert stack.deploy({name: made[name] for name in ("Vpc", "Subnet")}) == "CREATE_COMPLETE"
    assert free() == 16 - 5
    assert stack.deploy(made) == "UPDATE_COMPLETE"
    assert free() == 16 - 5 - 1


def test_the_address_of_a_nat_gateway_stays_until_its_stack_releases_it(stack: Any, client: Client) -> None:
    def allocated() -> list[str]:
        return [each["PublicIp"] for each in client("ec2").describe_addresses()["Addresses"]]

    before, made = allocated(), behind_nat()
    assert stack.deploy(made) == "CREATE_COMPLETE"
    (address,) = set(allocated()) - set(before)
    del made["Nat"]
    assert stack.deploy(made) == "UPDATE_COMPLETE"
    assert address in allocated()
    assert stack.delete() == "DELETE_COMPLETE"
    assert allocated() == before


def test_log_groups_that_services_make_have_no_retention_and_outlive_the_stack(stack: Any, client: Client) -> None:
    logs, trust = client("logs"), resource("AWS::IAM::Role", AssumeRolePolicyDocument={})
    project = {
        "ServiceRole": get_att("Role", "Arn"),
        "Artifacts": {"Type": "NO_ARTIFACTS"},
        "Environment": {"Type": "LINUX_CONTAINER", "ComputeType": "BUILD_GENERAL1_SMALL", "Image": "aws/codebuild/a:1"},
        "Source": {"Type": "NO_SOURCE", "BuildSpec": "version: 0.2"},
    }
    own = {"CloudWatchLogs": {"Status": "ENABLED", "GroupName": ref("Own")}}
    every_log = {"ClusterLogging": {"EnabledTypes": [{"Type": "audit"}]}}
    made = cluster([], Name="logs", Logging=every_log) | {
        "Role": trust,
        "Own": resource("AWS::Logs::LogGroup", RetentionInDays=30),
        "Builds": resource("AWS::CodeBuild::Project", Name="builds", **project),
        "Others": resource("AWS::CodeBuild::Project", Name="others", LogsConfig=own, **project),
    }
    assert stack.deploy(made) == "CREATE_COMPLETE"
    unlimited = ["/aws/codebuild/builds", "/aws/eks/logs/cluster"]
    groups = logs.describe_log_groups()["logGroups"]
    assert sorted(each["logGroupName"] for each in groups if "retentionInDays" not in each) == unlimited
    assert stack.delete() == "DELETE_COMPLETE"
    assert [each["logGroupName"] for each in logs.describe_log_groups()["logGroups"]] == unlimited
    assert stack.deploy(made) == "CREATE_COMPLETE", "the group of the earlier cluster is used"


def test_a_later_cluster_takes_up_the_log_group_that_a_stack_left(stack: Any, client: Client) -> None:
    def groups() -> list[tuple[str, int | None]]:
        found = client("logs").describe_log_groups(logGroupNamePrefix="/aws/eks/twice/")["logGroups"]
        return [(each["logGroupName"], each.get("retentionInDays")) for each in found]

    name = "/aws/eks/twice/cluster"
    made = cluster([], Name="twice", Logging={"ClusterLogging": {"EnabledTypes": [{"Type": "audit"}]}})
    made["Cluster"]["DependsOn"] = "Logs"
    logs = resource("AWS::Logs::LogGroup", LogGroupName=name, RetentionInDays=90)
    made["Logs"] = logs | {"DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"}
    for _ in range(2):
        assert stack.deploy(made, ImportExistingResources=True) == "CREATE_COMPLETE"
        assert stack.delete() == "DELETE_COMPLETE"
        assert groups() == [(name, 90)]


def hyperpod(name: str) -> dict[str, Any]:
    """Return a HyperPod cluster of one group, and a file system that logs."""
    group = {
        "InstanceGroupName": "train",
        "InstanceType": "ml.p5.48xlarge",
        "InstanceCount": 0,
        "ExecutionRole": "arn:aws:iam::123456789012:role/nodes",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-a/b", "OnCreate": "on_create.sh"},
    }
    lustre = {
        "DeploymentType": "PERSISTENT_2",
        "PerUnitStorageThroughput": 250,
        "LogConfiguration": {"Level": "WARN_ERROR"},
    }
    return NETWORK | {
        "HyperPod": resource("AWS::SageMaker::Cluster", ClusterName=name, InstanceGroups=[group]),
        "Lustre": resource(
            "AWS::FSx::FileSystem",
            FileSystemType="LUSTRE",
            StorageCapacity=1200,
            SubnetIds=[ref("Subnet")],
            LustreConfiguration=lustre,
        ),
    }


def test_the_logs_of_a_hyperpod_cluster_have_its_id_in_their_name_and_outlive_it(stack: Any, client: Client) -> None:
    assert stack.deploy(hyperpod("pods")) == "CREATE_COMPLETE"
    identity = stack.physical_id("HyperPod").rpartition("/")[2]
    assert stack.delete() == "DELETE_COMPLETE"
    groups = client("logs").describe_log_groups(logGroupNamePrefix="/aws/")["logGroups"]
    unlimited = {each["logGroupName"] for each in groups if "retentionInDays" not in each}
    assert {f"/aws/sagemaker/Clusters/pods/{identity}", "/aws/fsx/lustre"} <= unlimited


def test_the_eks_cluster_of_a_hyperpod_cluster_outlives_it(stack: Any, client: Client) -> None:
    made = cluster([], Name="outlives")
    nodes = hyperpod("outlives")["HyperPod"]["Properties"]
    orchestrator = {"Eks": {"ClusterArn": get_att("Cluster", "Arn")}}
    pod = resource("AWS::SageMaker::Cluster", **nodes, Orchestrator=orchestrator)
    assert stack.deploy(made | {"HyperPod": pod}) == "CREATE_COMPLETE"
    assert stack.deploy(made) == "UPDATE_COMPLETE"
    assert set(stack.events("DELETE_COMPLETE")) == {"HyperPod"}
    assert client("eks").describe_cluster(name="outlives")["cluster"]["status"] == "ACTIVE"


def test_each_service_has_its_role_after_its_first_resource(stack: Any, client: Client) -> None:
    for made in (cluster([], Name="first"), hyperpod("first")):
        assert stack.deploy(made) == "CREATE_COMPLETE"
        stack.delete()
    for service in ("eks", "fsx", "hyperpod.sagemaker"):
        prefix = f"/aws-service-role/{service}.amazonaws.com/"
        assert len(client("iam").list_roles(PathPrefix=prefix)["Roles"]) == 1, service
