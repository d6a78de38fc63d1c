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
# What an update does with the nodes of a group whose instance type or network changes is not documented.
INSTANCE_GROUP: Final = {"InstanceType": Verdict.UNKNOWN, "OverrideVpcConfig": Verdict.UNKNOWN}


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
