"""What is wrong with charts as rendered for a platform: images, taints, and room on the system nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delivery.mirror_list import images_of
from tests.seams.charts.installed import PREFIX, Installed, catalogue, mirror
from tests.seams.charts.render import Rendered, Workload
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.taints import HEALTH_TAINT, taints
from trainway.spec.facts.catalogue import Instance
from trainway.spec.kubernetes.addons import addon_names
from trainway.spec.kubernetes.charts import (
    EFA_DRA,
    EFA_PLUGIN,
    GPU_OPERATOR,
    KAI,
    NEURON_PLUGIN,
    NVIDIA_DRA,
    NVIDIA_PLUGIN,
)
from trainway.spec.kubernetes.system_pods import SystemPods, find_room, nodes_left, room_on, system_facts
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup

Labels = Mapping[str, str]
# Whose devices a chart serves.
SERVES = {
    EFA_PLUGIN: "efa",
    EFA_DRA: "efa",
    NVIDIA_PLUGIN: "nvidia",
    NVIDIA_DRA: "nvidia",
    GPU_OPERATOR: "nvidia",
    NEURON_PLUGIN: "neuron",
}


def image_problems(installed: Installed, found: Rendered) -> Iterator[str]:
    """Yield each image that is neither in the mirror nor named in `elsewhere` of the chart's entry with a reason."""
    copies = {f"{PREFIX}/{each['name']}:{each['tag']}" for each in images_of([dict(installed.entry)], mirror())}
    elsewhere = [each["image"] for each in installed.entry.get("elsewhere", [])]
    for image in found.images:
        repository = f"/{image.rpartition(':')[0]}"
        if image not in copies and not any(repository.endswith(f"/{each}") for each in elsewhere):
            yield f"{installed.chart}: the image {image} is not in the mirror"
    for copy in sorted(copies - set(found.images)):
        yield f"{installed.chart}: nothing runs the mirrored image {copy}"


def taint_problems(platform: Platform, installed: Installed, found: Rendered) -> Iterator[str]:
    """Yield each DaemonSet that does not tolerate a node that it serves, and each node that no DaemonSet serves."""
    daemons = [each for each in found.workloads if each.kind == "DaemonSet"]
    for group in platform.node_groups:
        for instance in (catalogue()[name] for name in group.instance_types):
            labels = _labels(platform, group, instance)
            there = [each for each in daemons if _runs_on(each, labels)]
            for daemon in there:
                for taint in _taints(platform, instance):
                    if not any(_tolerates(each, taint) for each in daemon.tolerations):
                        where = f"nodes of {group.name} ({instance.name})"
                        yield f"{installed.chart}: {daemon.name} does not tolerate {taint['key']} of {where}"
            if SERVES.get(installed.chart) in _devices(instance) and not there:
                yield f"{installed.chart}: no DaemonSet runs on nodes of {group.name} ({instance.name})"


def controller_problems(platform: Platform, installed: Installed, found: Rendered) -> Iterator[str]:
    """Yield each controller that system nodes do not take, or that system_pods.yaml counts in another way."""
    labels = _labels_of_system_nodes(platform)
    counted = {each.name: each for each in system_facts().charts[installed.chart].pods}
    for each in found.workloads:
        if each.kind == "DaemonSet":
            if _runs_on(each, labels):
                yield from _miscounted(installed, each, counted)
            continue
        if not _runs_on(each, labels):
            yield f"{installed.chart}: {each.name} runs on no system node"
        if each.kind != "Job":
            yield from _miscounted(installed, each, counted)
    # KAI's operator creates the other parts.
    names = {each.name for each in found.workloads}
    if installed.chart != KAI and (absent := sorted(set(counted) - names)):
        yield f"{installed.chart}: system_pods.yaml counts {', '.join(absent)}, which the chart does not have"


def room_problems(platform: Platform, charts: Sequence[tuple[Installed, Rendered]]) -> list[str]:
    """Return the workloads that find no room on the system nodes when one of them is lost.

    The pods of the add-ons, and those that operators create, are those of system_pods.yaml.
    """
    facts = system_facts()
    pods = [pod for name in addon_names(platform) for pod in facts.addons[name].pods]
    labels = _labels_of_system_nodes(platform)
    for installed, found in charts:
        there = [_as_pods(each) for each in found.workloads if each.kind != "Job" and _runs_on(each, labels)]
        names = {each.name for each in there}
        pods += [*there, *(each for each in facts.charts[installed.chart].pods if each.name not in names)]
    nodes = platform.kubernetes_or_default.system_nodes
    room = room_on(catalogue()[nodes.instance_type], platform.orchestrator)
    homeless = find_room(pods, room, nodes_left(nodes.count))
    return [f"{name} finds no room on {nodes.count} system nodes of {nodes.instance_type}" for name in homeless]


def _miscounted(installed: Installed, found: Workload, counted: Mapping[str, SystemPods]) -> Iterator[str]:
    if counted.get(found.name) != _as_pods(found):
        known = counted.get(found.name)
        yield f"{installed.chart}: {_as_pods(found)!r} is rendered, and system_pods.yaml has {known!r}"


def _as_pods(found: Workload) -> SystemPods:
    daemon = found.kind == "DaemonSet"
    return SystemPods(
        name=found.name,
        kind="daemonset" if daemon else "deployment",
        replicas=None if daemon else found.replicas,
        cpu_millicores=found.cpu_millicores,
        memory_mib=found.memory_mib,
    )


def _devices(instance: Instance) -> set[str]:
    vendor = {instance.accelerator.vendor} if instance.accelerator else set()
    return {*vendor, *(["efa"] if instance.efa_interfaces else [])}


def _taints(platform: Platform, instance: Instance) -> list[dict[str, str]]:
    return [*taints(instance), *([HEALTH_TAINT] if platform.orchestrator.is_hyperpod else [])]


def _labels(platform: Platform, group: NodeGroup, instance: Instance) -> Labels:
    prefix = "ml." if platform.orchestrator.is_hyperpod else ""
    # NVIDIA's operator labels the nodes on which its worker finds a GPU.
    gpus = {"nvidia.com/gpu.present": "true"} if "nvidia" in _devices(instance) else {}
    return {
        NODES_LABEL: group.name,
        "node.kubernetes.io/instance-type": f"{prefix}{instance.name}",
        "kubernetes.io/os": "linux",
        **gpus,
    }


def _labels_of_system_nodes(platform: Platform) -> Labels:
    kind = platform.kubernetes_or_default.system_nodes.instance_type
    return {NODES_LABEL: "system", "node.kubernetes.io/instance-type": kind, "kubernetes.io/os": "linux"}


def _runs_on(workload: Workload, labels: Labels) -> bool:
    return not workload.nodes or any(all(_matches(each, labels) for each in term) for term in workload.nodes)


def _matches(expression: Mapping[str, Any], labels: Labels) -> bool:
    value, values = labels.get(expression["key"]), expression.get("values", [])
    match expression["operator"]:
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case other:
            raise ValueError(f"no node label is compared by {other} here")


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, str]) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/ (read 2026-11-22)."""
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return toleration.get("key") == taint["key"] and toleration.get("value", "") == taint["value"]
