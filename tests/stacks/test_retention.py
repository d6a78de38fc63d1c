"""Updates keep every replaced resource that has data. A deletion of the stack keeps what the platform file says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.representatives import with_representatives
from tests.seams.shapes import platforms
from tests.synthesis import Template, resources, templates_of
from trainway.spec.observability.log_groups import control_plane_logs
from trainway.spec.platform import Platform

KEPT, DELETED, BY_THE_FILE, BY_ITS_NAME = "Retain", "Delete", "on_destroy", "LogGroupName"
# By type, what becomes of it when its stack goes. Nothing of these is ever deleted because an update replaces it.
STATEFUL = {
    "AWS::APS::Workspace": DELETED,
    "AWS::ECR::Repository": DELETED,
    "AWS::EKS::Cluster": DELETED,
    "AWS::FSx::FileSystem": BY_THE_FILE,
    "AWS::KMS::Key": DELETED,
    # That of a control plane stays, because EKS would create it again for its last lines.
    "AWS::Logs::LogGroup": BY_ITS_NAME,
    "AWS::S3::Bucket": KEPT,
}
# What is made again as it was, from the template alone.
STATELESS = {
    "AWS::APS::RuleGroupsNamespace",
    "AWS::APS::Scraper",
    "AWS::CloudFormation::WaitCondition",
    "AWS::CloudFormation::WaitConditionHandle",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::CloudWatch::LogAlarm",
    "AWS::CodeBuild::Project",
    "AWS::CodePipeline::Pipeline",
    "AWS::EC2::EIP",
    "AWS::EC2::FlowLog",
    "AWS::EC2::InternetGateway",
    "AWS::EC2::LaunchTemplate",
    "AWS::EC2::NatGateway",
    "AWS::EC2::PlacementGroup",
    "AWS::EC2::Route",
    "AWS::EC2::RouteTable",
    "AWS::EC2::SecurityGroup",
    "AWS::EC2::SecurityGroupEgress",
    "AWS::EC2::SecurityGroupIngress",
    "AWS::EC2::Subnet",
    "AWS::EC2::SubnetRouteTableAssociation",
    "AWS::EC2::VPC",
    "AWS::EC2::VPCCidrBlock",
    "AWS::EC2::VPCEndpoint",
    "AWS::EC2::VPCGatewayAttachment",
    "AWS::EKS::AccessEntry",
    "AWS::EKS::Addon",
    "AWS::EKS::Nodegroup",
    "AWS::EKS::PodIdentityAssociation",
    "AWS::Events::Rule",
    # A link: its deletion deletes files on neither side.
    "AWS::FSx::DataRepositoryAssociation",
    "AWS::IAM::Policy",
    "AWS::IAM::Role",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Subscription",
    # A deleted profile is canceled, and its signatures stay valid.
    "AWS::Signer::SigningProfile",
    "AWS::SNS::Topic",
    "AWS::SNS::TopicPolicy",
    "AWS::SSM::Document",
    "AWS::SSM::Parameter",
    "AWS::SQS::Queue",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
    "AWS::Scheduler::ScheduleGroup",
    # Its nodes keep nothing that a job needs after them.
    "AWS::SageMaker::Cluster",
    "AWS::SageMaker::ClusterSchedulerConfig",
    "AWS::SageMaker::ComputeQuota",
}


def kept_by_the_file(platform: Platform, properties: dict[str, Any]) -> str:
    """Return what the file says of a file system: Lustre, or home directories."""
    section = platform.storage.home if properties["FileSystemType"] == "OPENZFS" else platform.storage.lustre
    assert section
    return KEPT if section.on_destroy == "keep" else DELETED


def problems(platform: Platform, stacks: dict[str, Template]) -> Iterator[str]:
    """Yield what is wrong with the policies of the resources, and each type that the lists above lack."""
    for role, template in stacks.items():
        for name, resource in template["Resources"].items():
            kind, where = resource["Type"], f"{role}/{name}"
            if kind not in STATEFUL:
                if kind not in STATELESS:
                    yield f"{where}: say in tests/stacks/test_retention.py whether a {kind} has data"
                continue
            policy = STATEFUL[kind]
            properties = resource["Properties"]
            if policy == BY_THE_FILE:
                policy = kept_by_the_file(platform, properties)
            elif policy == BY_ITS_NAME:
                policy = KEPT if properties.get(BY_ITS_NAME) == control_plane_logs(platform.name) else DELETED
            if resource.get("DeletionPolicy") != policy:
                yield f"{where}: the stack's deletion has to {policy} it"
            if resource.get("UpdateReplacePolicy") != KEPT:
                yield f"{where}: a replacement deletes it"


@pytest.mark.parametrize(
    "name", with_representatives(platforms(), ["platform", "hyperpod-eks-shared", "hyperpod-slurm-p5en"])
)
def test_what_has_data_is_kept(name: str) -> None:
    platform = platforms()[name]
    assert list(problems(platform, templates_of(platform))) == []


def test_the_log_group_of_a_control_plane_is_there_before_its_cluster_and_keeps_ninety_days() -> None:
    platform = platforms()["platform"]
    template = templates_of(platform)["control-plane"]
    groups = resources(template, "AWS::Logs::LogGroup").items()
    ((name, group),) = [each for each in groups if each[1].get("LogGroupName") == control_plane_logs(platform.name)]
    assert group["RetentionInDays"] == 90
    (cluster,) = resources(template, "AWS::EKS::Cluster")
    assert name in template["Resources"][cluster]["DependsOn"]


@pytest.mark.parametrize(
    "name", with_representatives(platforms(), ["platform", "hyperpod-eks-shared", "hyperpod-slurm-p5en"])
)
def test_each_project_logs_to_a_group_of_its_stack(name: str) -> None:
    for role, template in templates_of(platforms()[name]).items():
        for project in resources(template, "AWS::CodeBuild::Project").values():
            logs = project["LogsConfig"]["CloudWatchLogs"]
            assert logs["Status"] == "ENABLED"
            group = resources(template, "AWS::Logs::LogGroup")[logs["GroupName"]["Ref"]]
            assert group["RetentionInDays"] > 0, role


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("AWS::KMS::Key", {"UpdateReplacePolicy": "Delete"}),
        ("AWS::FSx::FileSystem", {"UpdateReplacePolicy": None}),
        ("AWS::S3::Bucket", {"DeletionPolicy": "Delete"}),
        ("AWS::EKS::Cluster", {"Type": "AWS::RDS::DBCluster"}),
    ],
)
def test_a_policy_that_loses_data_is_found(kind: str, change: dict[str, Any]) -> None:
    platform = platforms()["platform"]
    stacks = templates_of(platform)
    found = next(each for t in stacks.values() for each in t["Resources"].values() if each["Type"] == kind)
    found.update(change)
    assert len(list(problems(platform, stacks))) == 1
