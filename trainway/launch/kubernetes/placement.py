"""On which nodes the pods of a run go, how close together, and what they have of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.who_shares import RUN_LABEL, Sharing
from trainway.launch.program.request import Request
from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.topology import HOSTNAME, topology_name
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff, Nodes
from trainway.spec.kubernetes.node_share import share_of_node
from trainway.spec.sections.orchestrator import Orchestrator

# https://github.com/awslabs/ai-on-sagemaker-hyperpod/blob/main/website/docs/06-validation-and-testing/resiliency/eks-resiliency.md
# (read 2026-11-21)
_HEALTHY = {"sagemaker.amazonaws.com/node-health-status": "Schedulable"}
# https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity-weight (read 2026-11-29)
_HIGHEST_WEIGHT = 100


@dataclass(frozen=True)
class Placement:
    """Where the pods of a run go, and what they have of their nodes: parts of the template of a pod.

    `pod_annotations` and `job_annotations` keep the pods close together. `one_group` has the annotations of pods in a
    run with two kinds of pods.
    """

    resources: Mapping[str, Mapping[str, int | str]]
    node_selector: Mapping[str, str]
    affinity: Mapping[str, Any] | None
    pod_annotations: Mapping[str, str]
    job_annotations: Mapping[str, str]
    one_group: Mapping[str, str]


def placement_of(request: Request, options: KubernetesOptions, catalogue: Catalogue, sharing: Sharing) -> Placement:
    """Return where the pods of a run go."""
    return Placement(
        _resources(request, catalogue),
        node_selector(request),
        affinity(request, options),
        _close_together(options, sharing),
        _close_together_for_kai(request, options, catalogue) if sharing == "kai" else {},
        _in_one_group(request, sharing),
    )


def _resources(request: Request, catalogue: Catalogue) -> dict[str, dict[str, int | str]]:
    """Return what a pod requests by number: all devices of a node, and what the node can give of CPU and memory.

    The kubelet evicts pods that use more memory than they request first, and a pod that requests none before all
    others. There are no limits, which would throttle and kill training processes.
    https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/#pod-selection-for-kubelet-eviction
    (read 2026-11-22)
    """
    group = request.allocation.group
    types = [catalogue[name] for name in (group.instance_type, *group.or_types)]
    # A deploy of before has not said which devices there are.
    devices = group.devices if group.devices or group.claims else types[0].devices
    cpu, memory = share_of_node(types, Orchestrator(request.hand_off.orchestrator))
    requests: dict[str, int | str] = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    return {**({"limits": dict(devices)} if devices else {}), "requests": requests}


def node_selector(request: Request) -> dict[str, str]:
    """Return the labels of the nodes that all groups of the run share, or those of its only group.

    On HyperPod, only nodes that HyperPod considers healthy are selected.
    """
    if request.allocation.others:
        return _healthy(request.hand_off)
    return nodes_of(request.hand_off, request.allocation.group)


def nodes_of(hand_off: HandOff, group: Nodes) -> dict[str, str]:
    """Return the node selector of pods on the nodes of a node group."""
    return {NODES_LABEL: group.name, **_healthy(hand_off)}


def selected_nodes(request: Request) -> str:
    """Return the selector of the nodes of the run's groups, as kubectl takes it."""
    labels = [f"{label}={value}" for label, value in node_selector(request).items()]
    names = ",".join(group.name for group in request.allocation.groups)
    return ",".join([*([f"{NODES_LABEL} in ({names})"] if request.allocation.others else []), *labels])


def _healthy(hand_off: HandOff) -> dict[str, str]:
    return _HEALTHY if hand_off.orchestrator == "hyperpod-eks" else {}


def affinity(request: Request, options: KubernetesOptions) -> dict[str, Any] | None:
    """Return the affinity that keeps pods on the groups of the run, and off the excluded nodes. None needs none.

    Kueue heeds it where it places pods by their network: https://github.com/kubernetes-sigs/kueue/pull/7899 (read
    2026-11-23). It gives a job only a flavor that matches, and tries the flavors in the order of the queue:
    https://github.com/kubernetes-sigs/kueue/blob/main/site/content/en/docs/concepts/resource_flavor.md (read
    2026-11-29).
    """
    names = [group.name for group in request.allocation.groups]
    excluded = [name for name in (options.exclude or "").split(",") if name]
    expressions = [
        *([{"key": NODES_LABEL, "operator": "In", "values": names}] if len(names) > 1 else []),
        *([{"key": HOSTNAME, "operator": "NotIn", "values": excluded}] if options.exclude is not None else []),
    ]
    if not expressions:
        return None
    term = {"matchExpressions": expressions}
    nodes: dict[str, Any] = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    if len(names) == 1 or request.hand_off.cluster.queue == "kueue":
        return {"nodeAffinity": nodes}
    # Other schedulers choose a node by its score: the first group has the highest.
    nodes["preferredDuringSchedulingIgnoredDuringExecution"] = [
        {
            "weight": max(1, _HIGHEST_WEIGHT - position),
            "preference": {"matchExpressions": [{"key": NODES_LABEL, "operator": "In", "values": [name]}]},
        }
        for position, name in enumerate(names)
    ]
    if request.allocation.nodes == 1 or request.hand_off.cluster.queue != "none":
        return {"nodeAffinity": nodes}
    # The first pod of the run chooses the group, and the others follow it.
    # https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#inter-pod-affinity-and-anti-affinity
    # (read 2026-11-29)
    same_group = {"labelSelector": {"matchLabels": {RUN_LABEL: request.run}}, "topologyKey": NODES_LABEL}
    return {
        "nodeAffinity": nodes,
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [same_group]},
    }


def _close_together(options: KubernetesOptions, sharing: Sharing) -> dict[str, str]:
    """Return the pods' annotations by which Kueue puts them close together; KAI reads those of the job."""
    if sharing in ("kai", "run-ai"):
        return {}
    if options.within:
        return {"kueue.x-k8s.io/podset-required-topology": options.within}
    return {"kueue.x-k8s.io/podset-preferred-topology": HOSTNAME}


def _in_one_group(request: Request, sharing: Sharing) -> dict[str, str]:
    """Return the pods' annotations by which Kueue places two kinds of pods together.

    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#user-facing-apis (read 2026-11-21)
    """
    if request.allocation.nodes > 1 and sharing not in ("kai", "run-ai"):
        return {"kueue.x-k8s.io/podset-group-name": "nodes"}
    return {}


def _close_together_for_kai(request: Request, options: KubernetesOptions, catalogue: Catalogue) -> dict[str, str]:
    """Return the annotations of a job that keep its pods close together for the KAI scheduler.

    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/developer/designs/topology-awareness/README.md
    (read 2026-11-21)
    """
    group = request.allocation.group
    types = [catalogue[name] for name in (group.instance_type, *group.or_types)]
    required = {"kai.scheduler/topology-required-placement": options.within} if options.within else {}
    return {
        "kai.scheduler/topology": topology_name(request.hand_off.region, *types),
        "kai.scheduler/topology-preferred-placement": HOSTNAME,
        **required,
    }
