"""Show the requests of `trainway verify --repair` and their results, as text and as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainway.verify.cluster_nodes import RefusedRepair, RepairRequest
from trainway.verify.repairs import CONSEQUENCES, FaultyNode, NotRepaired


@dataclass(frozen=True)
class RepairPlan:
    """The requests, the faults of each node, the checks without a repair, and the nodes that HyperPod does not list."""

    requests: tuple[RepairRequest, ...]
    repairs: tuple[FaultyNode, ...]
    not_repaired: tuple[NotRepaired, ...]
    unknown_nodes: tuple[str, ...] = ()


def as_plan(plan: RepairPlan, cluster: str) -> str:
    """Return the plan: each node with its request and the failed checks, and the failed checks without a repair."""
    reasons = {each.node: each.failed for each in plan.repairs}
    lines: list[str] = []
    for request in plan.requests:
        lines.append(f"{request.operation} on {cluster}: each node {CONSEQUENCES[request.repair]}")
        for instance_id, node in request.nodes.items():
            failed = "; ".join(f"{each.check}: {each.sentence}" for each in reasons[node])
            lines.append(f"  {node}  {instance_id}  {failed}")
    for node in plan.unknown_nodes:
        why = f"`aws sagemaker list-cluster-nodes --cluster-name {cluster}` does not list this node"
        lines.append(f"not repaired  {node}  {why}")
    for other in plan.not_repaired:
        lines.append(f"not repaired  {other.result.check} of {other.result.node or 'all nodes'}  {other.why}")
    return "\n".join(lines) or "no node needs a repair"


def as_outcome(request: RepairRequest, refused: Sequence[RefusedRepair]) -> str:
    """Return SageMaker's answer for each node of a request."""
    said = {each.instance_id: f"{each.code}: {each.message}" for each in refused}
    return "\n".join(
        f"{request.operation}  {node}  {instance_id}  {said.get(instance_id, 'accepted')}"
        for instance_id, node in request.nodes.items()
    )


def as_repair_document(plan: RepairPlan, *, sent: bool, refused: Sequence[RefusedRepair]) -> Mapping[str, Any]:
    """Return the plan, whether it was sent, and the refused nodes, as plain values for JSON."""
    return {
        "sent": sent,
        "requests": [
            {"operation": each.operation, "parameters": each.parameters, "nodes": dict(each.nodes)}
            for each in plan.requests
        ],
        "not_repaired": [
            *({"check": None, "node": node, "why": "HyperPod does not list it"} for node in plan.unknown_nodes),
            *({"check": each.result.check, "node": each.result.node, "why": each.why} for each in plan.not_repaired),
        ],
        "refused": [
            {"node": each.node, "instance_id": each.instance_id, "code": each.code, "message": each.message}
            for each in refused
        ],
    }
