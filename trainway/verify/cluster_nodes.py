"""Ask SageMaker HyperPod to check, reboot, or replace nodes, which are given by their names in Kubernetes or Slurm.

The shapes of the operations are those of botocore 1.44.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainway.price.asked import asking
from trainway.spec.handoff import HandOff
from trainway.verify.repairs import FaultyNode, Repair

PERMISSIONS = (
    "sagemaker:ListClusterNodes, sagemaker:StartClusterHealthCheck, sagemaker:BatchRebootClusterNodes, and "
    "sagemaker:BatchReplaceClusterNodes on the cluster"
)
OPERATIONS: Mapping[Repair, str] = {
    Repair.CHECK: "StartClusterHealthCheck",
    Repair.REBOOT: "BatchRebootClusterNodes",
    Repair.REPLACE: "BatchReplaceClusterNodes",
}
MOST_NODES = 25
"""Largest number of nodes in a request to reboot or replace (botocore's BatchReplaceClusterNodesRequestNodeIdsList)."""
STRESS = "InstanceStress"
"""The deep health check of one node. The other ones need several nodes, and measure the network between them."""


@dataclass(frozen=True)
class RepairRequest:
    """A request to SageMaker: what it does, its parameters, and the names of its nodes by their instance IDs."""

    repair: Repair
    parameters: Mapping[str, Any]
    nodes: Mapping[str, str]

    @property
    def operation(self) -> str:
        """The name of the operation in SageMaker's API."""
        return OPERATIONS[self.repair]


@dataclass(frozen=True)
class RefusedRepair:
    """A node that SageMaker does not repair, with its reason."""

    node: str
    instance_id: str
    code: str
    message: str


def repair_requests(
    repairs: Sequence[FaultyNode], hand_off: HandOff, group: str
) -> tuple[tuple[RepairRequest, ...], tuple[str, ...]]:
    """Return the requests that repair nodes of an instance group, and the names of nodes that HyperPod does not have.

    Nodes of other groups, such as the controller of Slurm, are never named in a request. Raises UsageError if SageMaker
    cannot be asked for the nodes of the cluster.
    """
    if not repairs:
        return (), ()
    cluster = hand_off.cluster.name
    with asking(f"the nodes of {cluster}", permissions=PERMISSIONS) as client:
        pages = client("sagemaker", hand_off.region).get_paginator("list_cluster_nodes").paginate(ClusterName=cluster)
        nodes = [node for page in pages for node in page["ClusterNodeSummaries"]]
    ids = {
        name: str(node["InstanceId"]) for node in nodes if node["InstanceGroupName"] == group for name in _names(node)
    }
    requests: list[RepairRequest] = []
    for repair in Repair:
        named = {
            ids[key]: each.node for each in repairs if each.repair is repair and (key := _first_label(each.node)) in ids
        }
        requests += _requests(repair, cluster, group, named)
    return tuple(requests), tuple(each.node for each in repairs if _first_label(each.node) not in ids)


def send(request: RepairRequest, region: str) -> tuple[RefusedRepair, ...]:
    """Send a request, and return the nodes that SageMaker refuses. Raises UsageError if it refuses the request."""
    what = f"{request.operation} of {', '.join(request.nodes.values())} was refused"
    with asking(what, permissions=PERMISSIONS, whole=True) as client:
        sagemaker = client("sagemaker", region)
        match request.repair:
            case Repair.CHECK:
                answer = sagemaker.start_cluster_health_check(**request.parameters)
            case Repair.REBOOT:
                answer = sagemaker.batch_reboot_cluster_nodes(**request.parameters)
            case Repair.REPLACE:
                answer = sagemaker.batch_replace_cluster_nodes(**request.parameters)
    return tuple(
        RefusedRepair(request.nodes[each["NodeId"]], each["NodeId"], each["ErrorCode"], each["Message"])
        for each in answer.get("Failed", ())
    )


def _requests(repair: Repair, cluster: str, group: str, named: Mapping[str, str]) -> Iterator[RepairRequest]:
    if repair is Repair.CHECK:
        if named:
            asked = {"InstanceGroupName": group, "InstanceIds": list(named), "DeepHealthChecks": [STRESS]}
            yield RepairRequest(repair, {"ClusterName": cluster, "DeepHealthCheckConfigurations": [asked]}, named)
        return
    ids = list(named)
    for start in range(0, len(ids), MOST_NODES):
        some = ids[start : start + MOST_NODES]
        yield RepairRequest(repair, {"ClusterName": cluster, "NodeIds": some}, {each: named[each] for each in some})


def _names(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of a node: `hyperpod-` with its instance ID in Kubernetes, and its host name in Slurm.

    An example of a host name is `ip-10-0-16-9`.
    """
    yield f"hyperpod-{node['InstanceId']}"
    if hostname := node.get("PrivateDnsHostname"):
        yield _first_label(str(hostname))


def _first_label(hostname: str) -> str:
    return hostname.partition(".")[0]
