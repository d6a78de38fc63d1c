"""The role of HyperPod's nodes, for both orchestrators."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from constructs import Construct

from stacks.constructs.delivery.registry import LOG_IN, PULL
from stacks.constructs.iam.permissions import LOOK_AT_NETWORK, Permission, grant, regional_arn
from stacks.constructs.iam.trust import service
from stacks.constructs.storage.data_permissions import data_permissions

# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html (read 2026-11-21)
NETWORK_INTERFACES = (
    "ec2:CreateNetworkInterface",
    "ec2:CreateNetworkInterfacePermission",
    "ec2:DeleteNetworkInterface",
    "ec2:DeleteNetworkInterfacePermission",
    "ec2:DetachNetworkInterface",
)
# Additional permissions for the VPC CNI plug-in on a node.
POD_NETWORK = (
    "ec2:AssignPrivateIpAddresses",
    "ec2:AttachNetworkInterface",
    "ec2:ModifyNetworkInterfaceAttribute",
    "ec2:UnassignPrivateIpAddresses",
)
POD_NETWORK_DESCRIBE = ("ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeTags")
LOGS = ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents")
SHELL = (
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
)


class ExecutionRole(Construct):
    """An IAM role for HyperPod instance groups: lifecycle scripts, logs, shells, network interfaces, and data.

    It replaces the AWS managed policy, which can read only buckets named `sagemaker-…`. `eks_cluster_arn` is None under
    Slurm. Without `has_data`, the node cannot read or write the data of jobs.
    """

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        bucket: s3.IBucket,
        scripts_prefix: str,
        eks_cluster_arn: str | None,
        has_data: bool = True,
    ) -> None:
        super().__init__(scope, id)
        self.role = iam.Role(self, "Role", assumed_by=service("sagemaker"))
        scripts = Permission(
            ("s3:GetObject",),
            (bucket.arn_for_objects(f"{scripts_prefix}/*"),),
            because="A node runs the version of the scripts that its cluster was made with.",
        )
        data = data_permissions(bucket) if has_data else []
        grant(self.role, scripts, *data, *_watching(), *_images())
        grant(self.role, *_network(kubernetes=eks_cluster_arn is not None))
        if eks_cluster_arn is not None:
            grant(self.role, Permission(("eks-auth:AssumeRoleForPodIdentity",), (eks_cluster_arn,)))


def _watching() -> list[Permission]:
    """Return the permissions for logs, metrics, and shells."""
    log_groups = regional_arn("logs", "log-group:/aws/sagemaker/Clusters/*")
    return [
        Permission(LOGS, (log_groups,), because="The service names log groups after the cluster's id."),
        Permission(
            ("cloudwatch:PutMetricData",),
            ("*",),
            because="Metrics have no resource type; the namespace is fixed instead.",
            conditions={"StringEquals": {"cloudwatch:namespace": "/aws/sagemaker/Clusters"}},
        ),
        Permission(SHELL, ("*",), because="Session Manager's channels have no resource type."),
    ]


def _network(*, kubernetes: bool) -> list[Permission]:
    """Return the permissions of nodes to create their own network interfaces in the platform's subnets."""
    # DetachNetworkInterface also requires the instance.
    # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html (read 2026-11-22)
    kinds = ("instance", "network-interface", "security-group", "subnet", "vpc")
    later = "Network interfaces and instances get their ids when nodes are made."
    return [
        Permission(
            NETWORK_INTERFACES + (POD_NETWORK if kubernetes else ()),
            tuple(regional_arn("ec2", f"{kind}/*") for kind in kinds),
            because=later,
        ),
        Permission(("ec2:CreateTags",), (regional_arn("ec2", "network-interface/*"),), because=later),
        Permission(
            LOOK_AT_NETWORK + (POD_NETWORK_DESCRIBE if kubernetes else ()),
            ("*",),
            because="EC2's Describe has no resource type.",
        ),
    ]


def _images() -> list[Permission]:
    repositories = regional_arn("ecr", "repository/*")
    return [LOG_IN, Permission(PULL, (repositories,), because="Jobs bring images of their own.")]
