"""What the chosen charts must know of the platform: on which nodes each device plugin has a device to serve."""

from __future__ import annotations

from typing import Any

from trainway.spec.catalogue import Catalogue
from trainway.spec.charts import EFA_PLUGIN, NEURON_PLUGIN, NVIDIA_PLUGIN, chart_names
from trainway.spec.platform import Platform

# Our own label, because HyperPod's nodes carry other instance type labels than EC2's (`ml.` comes first).
NODES_LABEL = "trainway.dev/nodes"


def chart_values(platform: Platform, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Values by chart name, of those chosen charts that have any.

    Kueue has none: whom it holds back is said by a label of the namespaces, in delivery/values/kueue.yaml.
    """
    instances = {group.name: catalogue[group.instance_type] for group in platform.node_groups}
    efa = [name for name, instance in instances.items() if instance.efa_interfaces]
    accelerated = {
        vendor: [name for name, each in instances.items() if each.accelerator and each.accelerator.vendor == vendor]
        for vendor in ("nvidia", "neuron")
    }
    values = {
        EFA_PLUGIN: {"supportedInstanceLabels": {"keys": [NODES_LABEL], "values": efa}},
        NVIDIA_PLUGIN: {"affinity": _only_on(accelerated["nvidia"])},
        NEURON_PLUGIN: {"devicePlugin": {"affinity": _only_on(accelerated["neuron"])}},
    }
    return {chart: values[chart] for chart in chart_names(platform, catalogue) if chart in values}


def _only_on(node_groups: list[str]) -> dict[str, Any]:
    expression = {"key": NODES_LABEL, "operator": "In", "values": node_groups}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
