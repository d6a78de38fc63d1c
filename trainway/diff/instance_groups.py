"""Treat HyperPod's instance groups as separate resources, although a template has them inside the cluster.

An update of the cluster creates, changes, and deletes them by their names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainway.diff.create_only import Verdict
from trainway.diff.tokens import Id

KIND: Final = "instance group"
CLUSTER: Final = "AWS::SageMaker::Cluster"
GROUPS: Final = "InstanceGroups"
_NAME: Final = "InstanceGroupName"
# AWS's page of the update says of these that they stay as they were created, and of the type also that it can change.
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-eks-operate-cli-command-update-cluster.html
# https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-prerequisites.html (both read 2026-11-30)
STAYS: Final = frozenset({"ExecutionRole", "InstanceType", "OverrideVpcConfig", "ThreadsPerCore"})
# These are updated, by the same page and the API's descriptions of a group. Of the rest, no page says what happens.
# https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html (read 2026-11-30)
UPDATED: Final = frozenset(
    {
        "AutoPatchConfig",
        "ImageReleaseVersion",
        "InstanceCount",
        "InstanceRequirements",
        "KubernetesConfig",
        "LifeCycleConfig",
        "MinInstanceCount",
        "OnStartDeepHealthChecks",
        "ScheduledUpdateConfig",
    }
)


def verdict_on_group(name: str) -> Verdict:
    """Return the verdict on a change of a group's property."""
    return Verdict.UNKNOWN if name in STAYS else Verdict.UPDATE


def with_instance_groups(resources: Mapping[Id, dict[str, Any]]) -> dict[Id, dict[str, Any]]:
    """Return the resources with each HyperPod cluster's groups beside it instead of inside it."""
    found: dict[Id, dict[str, Any]] = {}
    for id, resource in resources.items():
        if resource["Type"] != CLUSTER:
            found[id] = resource
            continue
        properties = dict(resource["Properties"])
        groups = properties.pop(GROUPS, [])
        found[id] = {**resource, "Properties": properties}
        for group in groups:
            found[Id(id.stack, f"{id.logical_id}/{group[_NAME]}")] = {"Type": KIND, "Properties": group}
    return found
