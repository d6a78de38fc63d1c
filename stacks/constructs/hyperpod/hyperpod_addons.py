"""The EKS add-ons of HyperPod, which require its cluster."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_aps as aps
from aws_cdk import aws_eks as eks
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sagemaker as sagemaker
from constructs import Construct

from stacks.constructs.eks.control_plane import ControlPlane
from stacks.constructs.hyperpod.addon import hyperpod_addon
from stacks.constructs.hyperpod.spaces import spaces
from stacks.constructs.hyperpod.task_governance import task_governance
from stacks.constructs.iam.permissions import Permission, grant, needs_policies
from stacks.constructs.iam.trust import pods
from stacks.constructs.monitoring.metrics_workspace import metrics_workspace, workspace_endpoint
from trainway.manifests.network_wall import COLLECTOR_NAMESPACE
from trainway.spec.capacity.group_types import all_types
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.kubernetes.addons import CERT_MANAGER, OBSERVABILITY, TASK_GOVERNANCE, TRAINING_OPERATOR
from trainway.spec.observability.collection import Collector, collector_of
from trainway.spec.platform import Platform

OPERATOR_NAMESPACE = "aws-hyperpod"
OPERATOR_ACCOUNT = "hp-training-operator-controller-manager"
COLLECTOR_ACCOUNT = "hyperpod-observability-operator-otel-collector"
SCRAPE_SECONDS = 30


def hyperpod_addons(
    scope: Construct,
    *,
    control_plane: ControlPlane,
    platform: Platform,
    catalogue: Catalogue,
    hyperpod: sagemaker.CfnCluster,
    alarms_topic: str,
    people: Iterable[iam.Role],
) -> None:
    """Install the training operator, Spaces, observability, and task governance if the platform file selects them."""
    asked = platform.hyperpod_or_default
    if asked.training_operator or asked.spaces:
        certificates = hyperpod_addon(scope, "CertManager", control_plane, CERT_MANAGER)
        if asked.training_operator:
            _training_operator(scope, control_plane, hyperpod, certificates)
        if asked.spaces:
            spaces(scope, control_plane=control_plane, platform=platform, hyperpod=hyperpod, certificates=certificates)
    if collector_of(platform) is Collector.HYPERPOD_ADDON:
        _observability(scope, control_plane, platform, catalogue, hyperpod, alarms_topic, people)
    if platform.task_governance:
        governance = hyperpod_addon(scope, "TaskGovernance", control_plane, TASK_GOVERNANCE)
        governance.add_resource_dependency(hyperpod)
        task_governance(
            scope,
            platform=platform,
            catalogue=catalogue,
            cluster_arn=hyperpod.attr_cluster_arn,
            after=governance,
        )


def _training_operator(
    scope: Construct, control_plane: ControlPlane, hyperpod: sagemaker.CfnCluster, certificates: eks.CfnAddon
) -> None:
    """Install the operator after cert-manager, and the role with which it queries the service about its nodes.

    https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-eks-operator-install.html (read 2026-11-21)
    """
    operators = pods(
        cluster_arn=control_plane.cluster.arn, service_account=OPERATOR_ACCOUNT, namespaces=[OPERATOR_NAMESPACE]
    )
    role = iam.Role(scope, "TrainingOperatorRole", assumed_by=operators)
    grant(role, Permission(("sagemaker:DescribeClusterNode",), (hyperpod.attr_cluster_arn,)))
    control_plane.pod_identity(
        scope,
        "TrainingOperatorIdentity",
        namespace=OPERATOR_NAMESPACE,
        service_account=OPERATOR_ACCOUNT,
        role=role,
    )
    operator = hyperpod_addon(scope, "TrainingOperator", control_plane, TRAINING_OPERATOR)
    operator.add_resource_dependency(certificates)


def _observability(
    scope: Construct,
    control_plane: ControlPlane,
    platform: Platform,
    catalogue: Catalogue,
    hyperpod: sagemaker.CfnCluster,
    alarms_topic: str,
    people: Iterable[iam.Role],
) -> None:
    """Install the collectors, the workspace for their metrics with its alarms, and the role of the collectors.

    The other permissions of AWS's role concern pods' logs, which are not collected.
    https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-addon-troubleshooting.html (read 2026-11-21)
    """
    workspace = metrics_workspace(
        scope, platform=platform, catalogue=catalogue, alarms_topic=alarms_topic, people=people
    )
    collectors = pods(
        cluster_arn=control_plane.cluster.arn, service_account=COLLECTOR_ACCOUNT, namespaces=[COLLECTOR_NAMESPACE]
    )
    role = iam.Role(scope, "ObservabilityRole", assumed_by=collectors)
    grant(role, Permission(("aps:RemoteWrite",), (workspace.attr_arn,)))
    addon = hyperpod_addon(scope, "HyperPodObservability", control_plane, OBSERVABILITY)
    addon.configuration_values = cdk.Stack.of(scope).to_json_string(_collected(workspace, platform, catalogue))
    addon.pod_identity_associations = [
        eks.CfnAddon.PodIdentityAssociationProperty(service_account=COLLECTOR_ACCOUNT, role_arn=role.role_arn)
    ]
    needs_policies(addon, role)
    # The add-on can be installed only after HyperPod has a node.
    addon.add_resource_dependency(hyperpod)


def _collected(workspace: aps.CfnWorkspace, platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the add-on's configuration in the form of AWS's module, with its defaults and this platform's parts.

    https://github.com/aws-samples/awsome-distributed-training, modules/observability/eks_addon.tf below
    1.architectures/7.sagemaker-hyperpod-eks/terraform-modules/hyperpod-eks-tf, and its README for the levels; what they
    mean: https://docs.aws.amazon.com/sagemaker/latest/dg/hyperpod-observability-cluster-metrics.html (read 2026-11-21)
    """
    has_fabric = any(instance.efa_interfaces for instance in all_types(platform, catalogue))
    levels = {
        "trainingMetrics": "BASIC",
        "inferenceMetrics": "BASIC",
        "taskGovernanceMetrics": "ADVANCED" if platform.task_governance else "DISABLED",
        "scalingMetrics": "DISABLED",
        "customMetrics": "BASIC",
        "nodeMetrics": "BASIC",
        # BASIC has no errors of ECC and NVLink, and no violations.
        "acceleratedComputeMetrics": "ADVANCED",
        "networkMetrics": "ADVANCED" if has_fabric else "DISABLED",
    }
    return {
        "ampWorkspace": {"prometheusEndpoint": workspace_endpoint(workspace), "arn": workspace.attr_arn},
        "metricsProvider": {name: {"level": level, "scrapeInterval": SCRAPE_SECONDS} for name, level in levels.items()},
        "logging": {"enabled": False},
    }
