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


def test_each_service_has_its_role_after_its_first_resource(stack: Any, client: Client) -> None:
    for made in (cluster([], Name="first"), hyperpod("first")):
        assert stack.deploy(made) == "CREATE_COMPLETE"
        stack.delete()
    for service in ("eks", "fsx", "hyperpod.sagemaker"):
        prefix = f"/aws-service-role/{service}.amazonaws.com/"
        assert len(client("iam").list_roles(PathPrefix=prefix)["Roles"]) == 1, service
