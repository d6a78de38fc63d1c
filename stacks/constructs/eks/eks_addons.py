"""The add-ons of every EKS cluster, and the roles of add-ons that call AWS."""

from __future__ import annotations

import json
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.constructs.eks.eks_cluster import EksCluster
from stacks.constructs.iam.acknowledge import acknowledge_managed_policies
from stacks.constructs.iam.permissions import Permission, grant, needs_policies, regional_arn
from stacks.constructs.iam.trust import pods
from trainway.manifests.network_wall import has_network_policies
from trainway.spec.kubernetes.addons import FSX_DRIVER, VPC_CNI
from trainway.spec.kubernetes.pod_network import cni_settings
from trainway.spec.platform import Platform
from trainway.spec.sections.tags import OWNER_TAG

NAMESPACE = "kube-system"
CNI_POLICY = "AmazonEKS_CNI_Policy"
# The service accounts of add-ons that call AWS. The page lists the add-ons that take a role by Pod Identity.
# https://docs.aws.amazon.com/eks/latest/userguide/retreive-iam-info.html (read 2026-11-21)
CNI_ACCOUNT = "aws-node"
FSX_DRIVER_ACCOUNT = "fsx-csi-controller-sa"


def eks_addon(scope: Construct, name: str, *, cluster: EksCluster, platform: Platform) -> eks.CfnAddon:
    """Return the add-on in the version of the lock, or in the default one at its creation.

    An add-on whose version is not in the template keeps its version when the control plane gets a newer one.
    """
    orchestrator = platform.orchestrator
    settings = _cni_configuration(platform) if name == VPC_CNI else {}
    addon = eks.CfnAddon(
        scope,
        "".join(part.capitalize() for part in name.split("-")),
        addon_name=name,
        addon_version=platform.lock.addon_versions.get(name),
        cluster_name=cluster.name,
        configuration_values=json.dumps(settings, sort_keys=True) if settings else None,
        # In an existing cluster, the creation fails if somebody installed a copy without EKS.
        # https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateAddon.html (read 2026-11-26)
        resolve_conflicts="NONE" if platform.adopted_cluster else "OVERWRITE",
        tags=[cdk.CfnTag(key=OWNER_TAG, value=platform.name)] if platform.adopted_cluster else None,
    )
    if name == FSX_DRIVER:
        role = _fsx_driver_role(scope, cluster, platform)
        _identify(addon, FSX_DRIVER_ACCOUNT, role)
        needs_policies(addon, role)
    # HyperPod checks that the execution role of its nodes has the CNI's permissions.
    # https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites-iam.html (read 2026-11-21)
    if name == VPC_CNI and not orchestrator.is_hyperpod:
        _identify(addon, CNI_ACCOUNT, _cni_role(scope, cluster))
    return addon


def _cni_configuration(platform: Platform) -> dict[str, Any]:
    """Return the CNI's configuration. The CNI enforces the network policies of a platform that has any.

    https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html (read 2026-11-24)
    """
    enforced = {"enableNetworkPolicy": "true"} if has_network_policies(platform) else {}
    return {"env": dict(cni_settings(platform.orchestrator)), **enforced}


def _identify(addon: eks.CfnAddon, service_account: str, role: iam.Role) -> None:
    addon.pod_identity_associations = [
        eks.CfnAddon.PodIdentityAssociationProperty(service_account=service_account, role_arn=role.role_arn)
    ]


def _cni_role(scope: Construct, cluster: EksCluster) -> iam.Role:
    """Return the CNI's role, so that pods on the node cannot attach network interfaces and take addresses."""
    driver = pods(cluster_arn=cluster.arn, service_account=CNI_ACCOUNT, namespaces=[NAMESPACE])
    policy = iam.ManagedPolicy.from_aws_managed_policy_name(CNI_POLICY)
    role = iam.Role(scope, "CniRole", assumed_by=driver, managed_policies=[policy])
    acknowledge_managed_policies(role, "The policy that EKS recommends for the add-on.", CNI_POLICY)
    return role


def _fsx_driver_role(scope: Construct, cluster: EksCluster, platform: Platform) -> iam.Role:
    """Return the driver's role.

    The driver describes an existing file system to mount it. For dynamic volumes, it creates file systems with the
    platform's tag, and changes and deletes those.

    https://github.com/kubernetes-sigs/aws-fsx-csi-driver/blob/master/docs/install.md
    https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-tags-fsx.html (both read 2026-11-21)
    """
    driver = pods(cluster_arn=cluster.arn, service_account=FSX_DRIVER_ACCOUNT, namespaces=[NAMESPACE])
    role = iam.Role(scope, "FsxDriverRole", assumed_by=driver)
    listing = "fsx:DescribeFileSystems lists, and a list has no resource type."
    grant(role, Permission(("fsx:DescribeFileSystems",), ("*",), because=listing))
    if platform.storage.dynamic_volumes:
        file_systems, made = (regional_arn("fsx", "file-system/*"),), "File systems get their ids when they are made."
        for actions, condition in (
            (("fsx:CreateFileSystem", "fsx:TagResource"), "aws:RequestTag"),
            (("fsx:DeleteFileSystem", "fsx:UpdateFileSystem"), "aws:ResourceTag"),
        ):
            ours = {"StringEquals": {f"{condition}/{OWNER_TAG}": platform.name}}
            grant(role, Permission(actions, file_systems, because=made, conditions=ours))
    return role
