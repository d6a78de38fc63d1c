"""What the chosen charts must know of the platform: which nodes have devices for them, and how GPUs are divided."""

from __future__ import annotations

from typing import Any

from trainway.manifests.mig import mig_manager_config
from trainway.spec.catalogue import Catalogue
from trainway.spec.charts import (
    EFA_DRA,
    EFA_PLUGIN,
    GPU_OPERATOR,
    NEURON_PLUGIN,
    NVIDIA_DRA,
    NVIDIA_PLUGIN,
    chart_names,
)
from trainway.spec.platform import Platform

# Our own label, because HyperPod's nodes carry other instance type labels than EC2's (`ml.` comes first).
NODES_LABEL = "trainway.dev/nodes"


def chart_values(platform: Platform, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Values by chart name, of those chosen charts that have any.

    Kueue has none: whom it holds back is said by a label of the namespaces, in delivery/values/kueue.yaml.
    """
    # The types of a group have the same devices, so that its first choice speaks for all of them.
    instances = {group.name: catalogue[group.instance_type] for group in platform.node_groups}
    efa = [name for name, instance in instances.items() if instance.efa_interfaces]
    accelerated = {
        vendor: [name for name, each in instances.items() if each.accelerator and each.accelerator.vendor == vendor]
        for vendor in ("nvidia", "neuron")
    }
    on_efa = {"supportedInstanceLabels": {"keys": [NODES_LABEL], "values": efa}}
    on_gpus = _only_on(accelerated["nvidia"])
    values = {
        EFA_PLUGIN: on_efa,
        EFA_DRA: on_efa,
        NVIDIA_PLUGIN: {"affinity": on_gpus},
        NVIDIA_DRA: {"kubeletPlugin": {"affinity": on_gpus}},
        # What it runs on a node goes where its worker has found a GPU.
        GPU_OPERATOR: {
            "node-feature-discovery": {"worker": {"affinity": on_gpus}},
            "migManager": {"config": mig_manager_config(platform, catalogue)},
        },
        NEURON_PLUGIN: {"devicePlugin": {"affinity": _only_on(accelerated["neuron"])}},
    }
    return {chart: values[chart] for chart in chart_names(platform, catalogue) if chart in values}


def _only_on(node_groups: list[str]) -> dict[str, Any]:
    expression = {"key": NODES_LABEL, "operator": "In", "values": node_groups}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
