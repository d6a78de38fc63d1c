"""The role of the Cluster Autoscaler, which can read node groups, and change the sizes of this cluster's."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.iam.permissions import Permission, grant, regional_arn
from stacks.constructs.iam.trust import pods

# The names in delivery/values/cluster-autoscaler.yaml and delivery/mirror.yaml.
ACCOUNT, NAMESPACE = "cluster-autoscaler", "kube-system"


def cluster_autoscaler_role(scope: Construct, id: str, *, control_plane: ControlPlane) -> iam.Role:
    """Return the role of its pods. EKS tags the Auto Scaling groups of node groups with the cluster's name.

    https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/cloudprovider/aws/README.md
    https://docs.aws.amazon.com/eks/latest/best-practices/cas.html (both read 2026-11-22)
    """
    cluster, name = control_plane.cluster, control_plane.platform.cluster_name
    role = iam.Role(
        scope, id, assumed_by=pods(cluster_arn=cluster.arn, service_account=ACCOUNT, namespaces=[NAMESPACE])
    )
    looks = (
        "autoscaling:DescribeAutoScalingGroups",
        "autoscaling:DescribeAutoScalingInstances",
        "autoscaling:DescribeLaunchConfigurations",
        "autoscaling:DescribeScalingActivities",
        "ec2:DescribeImages",
        "ec2:DescribeInstanceTypes",
        "ec2:DescribeLaunchTemplateVersions",
        "ec2:GetInstanceTypesFromInstanceRequirements",
    )
    ours = {"StringEquals": {f"aws:ResourceTag/k8s.io/cluster-autoscaler/{name}": "owned"}}
    groups = regional_arn("autoscaling", "autoScalingGroup:*:autoScalingGroupName/eks-*")
    named = "EKS names the Auto Scaling groups of node groups, and the tag says which are of this cluster."
    node_groups = regional_arn("eks", f"nodegroup/{name}/*/*")
    grant(
        role,
        Permission(looks, ("*",), because="Neither Auto Scaling's nor EC2's Describe has a resource type."),
        Permission(
            ("autoscaling:SetDesiredCapacity", "autoscaling:TerminateInstanceInAutoScalingGroup"),
            (groups,),
            because=named,
            conditions=ours,
        ),
        Permission(("eks:DescribeNodegroup",), (node_groups,), because="Node groups get their names in the deploy."),
    )
    return role
