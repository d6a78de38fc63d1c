"""How the GPU operator's MIG manager is told to divide the GPUs of a node group.

Each group has a configuration of its own, because a profile of one name is another number of fractions on another GPU.
https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html#eks-mig-device-plugin-al2023
(read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

import yaml

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

LABEL = "nvidia.com/mig.config"
# The operator gives this one to every node that has none, so that its GPUs become whole again.
# https://github.com/NVIDIA/gpu-operator/blob/v26.3.3/controllers/state_manager.go (read 2026-11-21)
WHOLE = "all-disabled"


def mig_labels(group: NodeGroup) -> dict[str, str]:
    """The node label by which the MIG manager finds the group's configuration; none where GPUs stay whole."""
    return {LABEL: _name(group)} if group.mig else {}


def mig_manager_config(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """The chart's `migManager.config`: one configuration for each group that divides its GPUs."""
    configs: dict[str, Any] = {WHOLE: [{"devices": "all", "mig-enabled": False}]}
    for group in platform.node_groups:
        accelerator = catalogue[group.instance_type].accelerator
        if group.mig and accelerator:
            fractions = {group.mig: accelerator.mig[group.mig]}
            configs[_name(group)] = [{"devices": "all", "mig-enabled": True, "mig-devices": fractions}]
    document = yaml.safe_dump({"version": "v1", "mig-configs": configs}, sort_keys=False)
    return {"create": True, "name": "trainway-mig", "default": WHOLE, "data": {"config.yaml": document}}


def _name(group: NodeGroup) -> str:
    return f"trainway-{group.name}"
