"""Values of the chosen charts that depend on the platform: nodes with devices, their taints, and MIG."""

from __future__ import annotations

from typing import Any

from trainway.manifests.mig import mig_manager_config
from trainway.manifests.run_ai_values import run_ai_values
from trainway.manifests.taints import daemon_tolerations
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.facts.metrics import load_emitters
from trainway.spec.kubernetes.charts import (
    CLUSTER_AUTOSCALER,
    DCGM_EXPORTER,
    EFA_DRA,
    EFA_PLUGIN,
    GPU_OPERATOR,
    KUEUE,
    NEURON_PLUGIN,
    NVIDIA_DRA,
    NVIDIA_PLUGIN,
    PROVISIONING_REQUESTS,
    RUN_AI,
    chart_names,
)
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

# A label of our own, because HyperPod's instance type labels differ from EC2's (they begin with `ml.`).
NODES_LABEL = "trainway.dev/nodes"
KUEUE_SCALES = {"trainway.dev/provisioning-requests": "true"}


def chart_values(platform: Platform, catalogue: Catalogue) -> dict[str, dict[str, Any]]:
    """Return the values of the chosen charts by chart name, for charts that have any.

    Kueue selects the namespaces that it manages by a label, in delivery/values/kueue.yaml.
    """
    # The instance types of a group have the same devices, so the first one represents all of them.
    instances = {group.name: catalogue[group.instance_type] for group in platform.node_groups}
    groups = {
        "efa": [group for group in platform.node_groups if instances[group.name].efa_interfaces],
        **{vendor: _with_accelerators_of(vendor, platform, catalogue) for vendor in ("nvidia", "neuron")},
    }
    tolerated = {device: daemon_tolerations(platform, catalogue, on) for device, on in groups.items()}
    names = {device: [group.name for group in on] for device, on in groups.items()}
    on_efa: dict[str, Any] = {
        "supportedInstanceLabels": {"keys": [NODES_LABEL], "values": names["efa"]},
        "tolerations": tolerated["efa"],
    }
    on_gpus: dict[str, Any] = {"affinity": _only_on(names["nvidia"]), "tolerations": tolerated["nvidia"]}
    chosen = chart_names(platform, catalogue)
    requests = PROVISIONING_REQUESTS in chosen
    values: dict[str, dict[str, Any]] = {
        EFA_PLUGIN: on_efa,
        EFA_DRA: on_efa,
        NVIDIA_PLUGIN: on_gpus,
        NVIDIA_DRA: {"kubeletPlugin": on_gpus},
        # The exporter names the pod of a GPU. With DRA, it asks the Kubernetes API for the claims of pods.
        DCGM_EXPORTER: {
            **on_gpus,
            "kubernetesDRA": {"enabled": NVIDIA_DRA in chosen},
            "customMetrics": dcgm_fields(),
        },
        CLUSTER_AUTOSCALER: {
            "autoDiscovery": {"clusterName": platform.cluster_name},
            "extraArgs": {"enable-provisioning-requests": requests},
        },
        # Kueue looks for ProvisioningRequests only when it starts. A changed pod annotation restarts it.
        # https://github.com/kubernetes-sigs/kueue/blob/v0.19.2/cmd/kueue/main.go (setupControllers, read 2026-11-22)
        **({KUEUE: {"controllerManager": {"manager": {"podAnnotations": KUEUE_SCALES}}}} if requests else {}),
        # The operator's DaemonSets run where its node feature discovery worker has found a GPU.
        GPU_OPERATOR: {
            "daemonsets": {"tolerations": tolerated["nvidia"]},
            "node-feature-discovery": {"worker": on_gpus},
            "migManager": {"config": mig_manager_config(platform, catalogue)},
        },
        RUN_AI: run_ai_values(platform),
        NEURON_PLUGIN: {
            "devicePlugin": {"affinity": _only_on(names["neuron"]), "tolerations": tolerated["neuron"]},
        },
    }
    return {chart: values[chart] for chart in chosen if chart in values}


def dcgm_fields() -> str:
    """Return the fields that panels and alarms use, in the format of dcgm-exporter. They replace its default list.

    The default list has no errors of ECC and NVLink, and no violations.
    https://github.com/NVIDIA/dcgm-exporter/blob/4.5.3-4.8.2/deployment/values.yaml (customMetrics, read 2026-12-01)
    """
    used = load_emitters()["dcgm"].metrics
    return "".join(f"{name}, {metric.kind}, In {metric.unit}.\n" for name, metric in used.items())


def _with_accelerators_of(vendor: str, platform: Platform, catalogue: Catalogue) -> list[NodeGroup]:
    accelerators = [(group, catalogue[group.instance_type].accelerator) for group in platform.node_groups]
    return [group for group, accelerator in accelerators if accelerator and accelerator.vendor == vendor]


def _only_on(node_groups: list[str]) -> dict[str, Any]:
    expression = {"key": NODES_LABEL, "operator": "In", "values": node_groups}
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
