"""How EKS repairs the nodes of a managed node group."""

from __future__ import annotations

from typing import Any

from aws_cdk import aws_eks as eks

from trainway.spec.facts.node_repair import node_repair_facts
from trainway.spec.sections.node_repair import NodeRepair

CfnNodegroup = eks.CfnNodegroup


def node_repair_config(repair: NodeRepair | None) -> eks.CfnNodegroup.NodeRepairConfigProperty:
    """Return a node group's repair settings: EKS's defaults with the changes of the platform file.

    A number and a percentage are separate properties, of which EKS accepts one.
    https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html (read 2026-11-22)
    """
    if repair is None:
        return CfnNodegroup.NodeRepairConfigProperty(enabled=True)
    facts = node_repair_facts()
    overrides = [
        CfnNodegroup.NodeRepairConfigOverridesProperty(
            node_monitoring_condition=facts.condition_of(each.reason),
            node_unhealthy_reason=each.reason,
            min_repair_wait_time_mins=each.wait_minutes,
            repair_action=each.action,
        )
        for each in repair.overrides
    ]
    return CfnNodegroup.NodeRepairConfigProperty(
        enabled=repair.enabled,
        node_repair_config_overrides=overrides or None,
        **_amount("max_unhealthy_node_threshold", repair.stop_above),
        **_amount("max_parallel_nodes_repaired", repair.at_once),
    )


def _amount(name: str, amount: int | str | None) -> dict[str, Any]:
    if amount is None:
        return {}
    if isinstance(amount, int):
        return {f"{name}_count": amount}
    return {f"{name}_percentage": int(amount.removesuffix("%"))}
