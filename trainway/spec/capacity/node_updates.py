"""How EKS updates the nodes of a managed node group to a new image or launch template."""

from __future__ import annotations

from enum import StrEnum

from trainway.spec.sections.node_group import NodeGroup

# EKS's own default. A job on all nodes of a group ends with the first drained node, whatever the number is.
UNAVAILABLE_NODES = 1


class UpdateStrategy(StrEnum):
    """EKS's two ways to replace nodes.

    DEFAULT launches new nodes first. MINIMAL terminates nodes first, and needs neither spare capacity nor addresses.
    https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
    https://docs.aws.amazon.com/eks/latest/APIReference/API_NodegroupUpdateConfig.html (both read 2026-11-22)
    """

    DEFAULT = "DEFAULT"
    MINIMAL = "MINIMAL"


def update_strategy(group: NodeGroup) -> UpdateStrategy:
    """Return how EKS replaces the nodes of a group. In a full reservation, only MINIMAL can finish."""
    return UpdateStrategy.DEFAULT if isinstance(group.capacity, str) else UpdateStrategy.MINIMAL
