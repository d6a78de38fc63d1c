"""Configuration of the GPU operator's MIG manager, which divides the GPUs of a node group.

Each group has a configuration of its own, because a profile name yields different numbers of fractions on different
GPUs. https://docs.aws.amazon.com/eks/latest/userguide/device-management-nvidia-mig.html#eks-mig-device-plugin-al2023
(read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

import yaml

from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

LABEL = "nvidia.com/mig.config"
# The operator sets this configuration on every node without one, so that its GPUs become whole again.
# https://github.com/NVIDIA/gpu-operator/blob/v26.3.3/controllers/state_manager.go (read 2026-11-21)
WHOLE = "all-disabled"


def mig_labels(group: NodeGroup) -> dict[str, str]:
    """Return the node label by which the MIG manager finds the group's configuration. Empty if GPUs stay whole."""
    return {LABEL: _name(group)} if group.mig else {}


def mig_manager_config(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the chart's `migManager.config`, with one configuration for each group that divides its GPUs."""
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
