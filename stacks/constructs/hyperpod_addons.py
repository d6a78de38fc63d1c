"""The EKS add-ons of HyperPod, which need its cluster to be there."""

from __future__ import annotations

from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.control_plane import ControlPlane, pod_principal
from stacks.constructs.permissions import Permission, grant
from stacks.constructs.task_governance import ADDON, task_governance
from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform


def hyperpod_addons(
    scope: Construct,
    *,
    control_plane: ControlPlane,
    platform: Platform,
    catalogue: Catalogue,
    hyperpod: sagemaker.CfnCluster,
) -> None:
    """The training operator and task governance, where the file asks for them."""
    if platform.hyperpod_or_default.training_operator:
        _training_operator(scope, control_plane, hyperpod)
    if platform.task_governance:
        governance = _addon(scope, "TaskGovernance", control_plane, ADDON)
        governance.add_resource_dependency(hyperpod)
        task_governance(
            scope,
            platform=platform,
            catalogue=catalogue,
            cluster_arn=hyperpod.attr_cluster_arn,
            after=governance,
        )


def _training_operator(scope: Construct, control_plane: ControlPlane, hyperpod: sagemaker.CfnCluster) -> None:
    """The operator, cert-manager before it, and the role in which it asks the service about its nodes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html (read 2026-11-21)
    """
    role = iam.Role(scope, "TrainingOperatorRole", assumed_by=pod_principal())
    grant(role, Permission(("sagemaker:DescribeClusterNode",), (hyperpod.attr_cluster_arn,)))
    control_plane.pod_identity(
        "TrainingOperatorIdentity",
        namespace="aws-hyperpod",
        service_account="hp-training-operator-controller-manager",
        role=role,
    )
    certificates = _addon(scope, "CertManager", control_plane, "cert-manager")
    for ready in control_plane.ready:
        certificates.add_resource_dependency(ready)
    operator = _addon(scope, "TrainingOperator", control_plane, "amazon-sagemaker-hyperpod-training-operator")
    operator.add_resource_dependency(certificates)


def _addon(scope: Construct, id: str, control_plane: ControlPlane, name: str) -> eks.CfnAddon:
    return eks.CfnAddon(
        scope, id, addon_name=name, cluster_name=control_plane.cluster.ref, resolve_conflicts="OVERWRITE"
    )
