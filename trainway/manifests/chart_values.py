"""What the charts must know of the platform: on which nodes each device plugin has a device to serve."""

from __future__ import annotations

from typing import Any

from trainway.spec.catalogue import Catalogue
from trainway.spec.platform import Platform

# Our own label, because HyperPod's nodes carry other instance type labels than EC2's (`ml.` comes first).
NODES_LABEL = "trainway.dev/nodes"
# A node affinity has to name something; no node group can have this name.
NOWHERE = "-none-"


def chart_values(platform: Platform, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Values by chart name. A plugin whose device no group has runs nowhere, rather than crash-loop everywhere."""
    efa = [group.name for group in platform.node_groups if catalogue[group.instance_type].efa_interfaces]
    nvidia = [
        group.name
        for group in platform.node_groups
        if (accelerator := catalogue[group.instance_type].accelerator) and accelerator.vendor == "nvidia"
    ]
    on_nvidia = {"key": NODES_LABEL, "operator": "In", "values": nvidia or [NOWHERE]}
    return {
        "aws-efa-k8s-device-plugin": {"supportedInstanceLabels": {"keys": [NODES_LABEL], "values": efa or [NOWHERE]}},
        "nvidia-device-plugin": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [{"matchExpressions": [on_nvidia]}]
                    }
                }
            }
        },
    }
