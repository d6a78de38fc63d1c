"""Nodes of HyperPod clusters that a test gives an account, and the operations that check, reboot, and replace them.

The IDs of the nodes that moto lists are not instance IDs, and moto lacks the operations. As everywhere in the emulator,
an operation has ended when its call returns: a replaced node has another instance at once. The errors are those of
BatchReplaceClusterNodes in the API's model (botocore 1.44.5).
"""

from __future__ import annotations

import hashlib
import secrets
from datetime import UTC, datetime
from typing import Any, Protocol

from emulator.api_calls import shape_of
from emulator.errors import RefusedCall

_IN_CHECK = "DeepHealthCheckInProgress"
_CHANGING = ("SystemUpdating", "Pending", "ShuttingDown", _IN_CHECK)


class ClusterAccount(Protocol):
    """An account in one Region, with the nodes of its HyperPod clusters by the cluster's name."""

    account: str
    region: str
    cluster_nodes: dict[str, list[dict[str, Any]]]
    clusters_of_stacks: dict[str, dict[str, Any]]


def list_nodes(account: ClusterAccount, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return the nodes of a cluster in one page, or None if moto has to list them.

    They are those that a test gives, or all that the cluster of a stack asks for.
    """
    name = _cluster(asked)
    nodes = account.cluster_nodes.get(name)
    if nodes is None and name in account.clusters_of_stacks:
        groups = account.clusters_of_stacks[name].get("InstanceGroups") or ()
        nodes = [_running(name, group, number) for group in groups for number in range(group["InstanceCount"])]
    return None if nodes is None else {"ClusterNodeSummaries": nodes}


def describe(account: ClusterAccount, asked: dict[str, Any]) -> dict[str, Any] | None:
    """Return the cluster of a stack as DescribeCluster does, or None if moto has to."""
    name = _cluster(asked)
    if name not in account.clusters_of_stacks:
        return None
    model = account.clusters_of_stacks[name]
    groups = [
        {key: group[key] for key in ("InstanceGroupName", "InstanceType", "ExecutionRole") if key in group}
        | {"CurrentCount": group["InstanceCount"], "TargetCount": group["InstanceCount"], "Status": "InService"}
        for group in model.get("InstanceGroups") or ()
    ]
    found = {"ClusterArn": model["ClusterArn"], "ClusterName": name, "ClusterStatus": "InService"}
    return found | {"InstanceGroups": groups}


def _running(cluster: str, group: dict[str, Any], number: int) -> dict[str, Any]:
    name = group["InstanceGroupName"]
    return {
        "InstanceGroupName": name,
        "InstanceId": f"i-{hashlib.sha256(f'{cluster}/{name}/{number}'.encode()).hexdigest()[:17]}",
        "InstanceType": group["InstanceType"],
        "LaunchTime": datetime.now(UTC),
        "InstanceStatus": {"Status": "Running"},
    }


def reboot(account: ClusterAccount, asked: dict[str, Any]) -> dict[str, Any]:
    """Reboot nodes, which changes nothing that the API shows."""
    return _changed(account, asked, replace=False)


def replace(account: ClusterAccount, asked: dict[str, Any]) -> dict[str, Any]:
    """Give nodes other instances."""
    return _changed(account, asked, replace=True)


def check_health(account: ClusterAccount, asked: dict[str, Any]) -> dict[str, Any]:
    """Set all nodes of an instance group, or the named ones, to the state of a deep health check."""
    nodes = _nodes(account, asked)
    for each in asked["DeepHealthCheckConfigurations"]:
        group = [node for node in nodes if node["InstanceGroupName"] == each["InstanceGroupName"]]
        wanted = each.get("InstanceIds") or [node["InstanceId"] for node in group]
        known = {node["InstanceId"]: node for node in group}
        if missing := [instance for instance in wanted if instance not in known]:
            raise RefusedCall("ResourceNotFound", f"{missing[0]} is not in {each['InstanceGroupName']}")
        for instance in wanted:
            known[instance]["InstanceStatus"] = {"Status": _IN_CHECK}
    arn = f"arn:aws:sagemaker:{account.region}:{account.account}:cluster/{'0' * 12}"
    return {"ClusterArn": arn}


def _changed(account: ClusterAccount, asked: dict[str, Any], *, replace: bool) -> dict[str, Any]:
    nodes = {node["InstanceId"]: node for node in _nodes(account, asked)}
    wanted = asked.get("NodeIds", [])
    if not wanted:
        raise RefusedCall("ValidationException", "Either NodeIds or NodeLogicalIds must be provided")
    most = shape_of("sagemaker", "BatchReplaceClusterNodesRequestNodeIdsList").metadata["max"]
    if len(wanted) > most:
        raise RefusedCall("ValidationException", f"nodeIds must have length less than or equal to {most}")
    done, failed = [], []
    for instance in wanted:
        node = nodes.get(instance)
        if node is None:
            failed.append(_failure(instance, "InstanceIdNotFound", "The instance is not in the cluster"))
        elif node["InstanceStatus"]["Status"] in _CHANGING:
            status = node["InstanceStatus"]["Status"]
            failed.append(_failure(instance, "InvalidInstanceStatus", f"The instance is {status}"))
        else:
            done.append(instance)
            if replace:
                node["InstanceId"] = f"i-{secrets.token_hex(9)[:17]}"
    # By the API's model, the list of successes is not empty.
    return ({"Successful": done} if done else {}) | {"Failed": failed}


def _failure(instance: str, code: str, message: str) -> dict[str, str]:
    return {"NodeId": instance, "ErrorCode": code, "Message": message}


def _nodes(account: ClusterAccount, asked: dict[str, Any]) -> list[dict[str, Any]]:
    nodes = account.cluster_nodes.get(_cluster(asked))
    if nodes is None:
        raise RefusedCall("ResourceNotFound", f"Cluster {asked['ClusterName']} not found")
    return nodes


def _cluster(asked: dict[str, Any]) -> str:
    return str(asked["ClusterName"]).rpartition("/")[2]
