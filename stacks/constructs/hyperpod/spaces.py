"""SageMaker Spaces: JupyterLab and Code Editor in the cluster, which VS Code on a person's machine connects to.

https://docs.aws.amazon.com/sagemaker/latest/dg/operator-install.html
https://docs.aws.amazon.com/sagemaker/latest/dg/permission-setup.html (both read 2026-11-24)
"""

from __future__ import annotations

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.hyperpod.addon import hyperpod_addon
from stacks.constructs.iam.acknowledge import acknowledge_managed_policies
from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import pods, service
from trainway.spec.kubernetes.addons import EBS_DRIVER, SPACES
from trainway.spec.platform import Platform

NAMESPACE = "jupyter-k8s-system"
CONTROLLER_ACCOUNT = "jupyter-k8s-controller-manager"
CONTROLLER_POLICY = "AmazonSageMakerSpacesControllerPolicy"
EBS_NAMESPACE, EBS_ACCOUNT = "kube-system", "ebs-csi-controller-sa"
# Its ARN has no path, as moto 5's record of AWS's policies has it. The driver's page writes one with service-role.
EBS_POLICY = "AmazonEBSCSIDriverPolicyV2"
# The controller's policy lets it pass roles with this beginning, and no others:
# https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonSageMakerSpacesControllerPolicy.html (read
# 2026-11-24)
AGENT_ROLE = "sagemaker-space-"


def spaces(
    scope: Construct,
    *,
    control_plane: ControlPlane,
    platform: Platform,
    hyperpod: sagemaker.CfnCluster,
    certificates: eks.CfnAddon,
) -> None:
    """Install the add-on, and the driver of the volumes in which spaces keep their home directories."""
    driver = _ebs_driver(scope, control_plane, hyperpod)
    agent = _agent_role(scope, platform)
    controllers = pods(
        cluster_arn=control_plane.cluster.arn, service_account=CONTROLLER_ACCOUNT, namespaces=[NAMESPACE]
    )
    role = iam.Role(
        scope,
        "SpacesRole",
        assumed_by=controllers,
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(CONTROLLER_POLICY)],
    )
    acknowledge_managed_policies(role, "The policy that SageMaker documents for the controller.", CONTROLLER_POLICY)
    addon = hyperpod_addon(scope, "Spaces", control_plane, SPACES)
    addon.configuration_values = cdk.Stack.of(scope).to_json_string(
        {
            "jupyter-k8s": {"workspacePodWatching": {"enable": True}},
            # The add-on asks Systems Manager for an activation with this role, which wants its name.
            # https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_CreateActivation.html (IamRole, read
            # 2026-11-24)
            "jupyter-k8s-aws-hyperpod": {"remoteAccess": {"enabled": True, "ssmManagedNodeRole": agent.role_name}},
        }
    )
    addon.pod_identity_associations = [
        eks.CfnAddon.PodIdentityAssociationProperty(service_account=CONTROLLER_ACCOUNT, role_arn=role.role_arn)
    ]
    needs_policies(addon, agent)
    for needed in (certificates, driver, hyperpod):
        addon.add_resource_dependency(needed)


def _agent_role(scope: Construct, platform: Platform) -> iam.Role:
    """Return the role of Systems Manager's agent in a space, through which VS Code connects.

    Whoever works in the space can take these credentials. So the role has what Session Manager needs of a node, and not
    the parameters and documents that AWS's own policies for nodes add.
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html (read
    2026-11-24)
    """
    role = iam.Role(
        scope,
        "SpacesAgentRole",
        role_name=f"{AGENT_ROLE}{platform.name}-{platform.region}",
        assumed_by=service("ssm"),
    )
    registered = "Systems Manager numbers a node when it registers."
    nodes = (regional_arn("ssm", "managed-instance/*"),)
    grant(role, Permission(("ssm:UpdateInstanceInformation",), nodes, because=registered))
    channels = tuple(f"ssmmessages:{verb}{kind}Channel" for verb in ("Create", "Open") for kind in ("Control", "Data"))
    grant(role, Permission(channels, ("*",), because="The channels of Session Manager have no resource type."))
    return role


def _ebs_driver(scope: Construct, control_plane: ControlPlane, hyperpod: sagemaker.CfnCluster) -> eks.CfnAddon:
    """Install the EBS driver, which attaches volumes to HyperPod's nodes by SageMaker's API.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-ebs.html
    https://github.com/kubernetes-sigs/aws-ebs-csi-driver/blob/v1.64.0/docs/install.md (both read 2026-11-24)
    """
    drivers = pods(cluster_arn=control_plane.cluster.arn, service_account=EBS_ACCOUNT, namespaces=[EBS_NAMESPACE])
    role = iam.Role(
        scope,
        "EbsDriverRole",
        assumed_by=drivers,
        managed_policies=[iam.ManagedPolicy.from_aws_managed_policy_name(EBS_POLICY)],
    )
    acknowledge_managed_policies(role, "The driver's own policy: volumes with the driver's tag only.", EBS_POLICY)
    attaching = ("sagemaker:AttachClusterNodeVolume", "sagemaker:DetachClusterNodeVolume")
    grant(role, Permission(attaching, (hyperpod.attr_cluster_arn,)))
    grant(role, Permission(("eks:DescribeCluster",), (control_plane.cluster.arn,)))
    addon = hyperpod_addon(scope, "EbsDriver", control_plane, EBS_DRIVER)
    addon.pod_identity_associations = [
        eks.CfnAddon.PodIdentityAssociationProperty(service_account=EBS_ACCOUNT, role_arn=role.role_arn)
    ]
    needs_policies(addon, role)
    return addon
