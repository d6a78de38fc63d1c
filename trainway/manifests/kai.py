"""The KAI scheduler's queues: one of the platform with a quota of all its nodes, and below it one per team.

A team's quota is its guarantee. Resources above the quotas are shared by weight, and taken back from teams that exceed
their share. KAI counts GPUs, CPUs in thousandths, and memory in megabytes, over all nodes that it sees.
https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/queues/README.md
https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/fairness/README.md (both read 2026-11-21)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from trainway.manifests.topology import HOSTNAME, topology, topology_name
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team
from trainway.spec.teams.shares import guaranteed_nodes, node_has

API = "scheduling.run.ai/v2"
TOPOLOGY_API = "kai.scheduler/v1alpha1"
# A pod selects the scheduler by name, and the queue by a label.
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/quickstart/README.md (read 2026-11-21)
SCHEDULER = "kai-scheduler"
QUEUE_LABEL = "kai.scheduler/queue"
# The scheduler sees only nodes that are in no node pool. The node pool keeps jobs off the nodes of the cluster's own
# pods, and excludes those nodes from sharing.
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/operator/scheduling-shards.md (read 2026-11-21)
NOT_FOR_KAI = {"kai.scheduler/node-pool": "system"}
GPU = "nvidia.com/gpu"
NO_LIMIT = -1
# Priority of a job without one: that of the class `train`. From 100 on, a job could not be preempted.
# https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/priority/README.md (read 2026-11-21)
USUAL_PRIORITY = 50


def kai_queues(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the topologies, and the queues of the platform and its teams. Empty without the KAI scheduler."""
    if not platform.kai:
        return []
    topologies = {topology_name(platform.region, *types_of(group, catalogue)) for group in platform.node_groups}
    return [
        *(topology(name, TOPOLOGY_API) for name in sorted(topologies)),
        _platform_queue(platform, catalogue),
        *(_team_queue(platform, catalogue, team) for team in platform.teams),
    ]


def parent_queue(platform: Platform) -> str:
    """Return the name of the platform's queue. Its dot keeps it apart from team names, which share the same list."""
    return f"{platform.name}.platform"


def close_together(platform: Platform, catalogue: Catalogue) -> dict[str, str]:
    """Return the annotations of a job's template that place its pods as close together as possible.

    KAI starts at the preferred level and goes up. The topology is that of the nodes with GPUs, if there are any. Nodes
    without the label of one of its levels do not belong to it, and the job cannot use them.
    https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/pkg/scheduler/plugins/topology/common.go
    (isNodePartOfTopology, read 2026-11-21)
    """
    groups = [types_of(group, catalogue) for group in platform.node_groups]
    with_gpus = [types for types in groups if types[0].accelerator]
    types = [instance for group in with_gpus or groups for instance in group]
    return {
        "kai.scheduler/topology": topology_name(platform.region, *types),
        "kai.scheduler/topology-preferred-placement": HOSTNAME,
    }


def _platform_queue(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    nodes = {group.name: group.largest for group in platform.node_groups}
    spec = {
        # Guaranteed resources, and those of a job with lower priority, are taken back at once.
        # https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/plugins/minruntime.md (read 2026-11-21)
        "preemptMinRuntime": "0s",
        "reclaimMinRuntime": "0s",
        "resources": _resources(_amounts(platform, catalogue, nodes), borrow=True, weight=1),
    }
    return _queue(parent_queue(platform), spec)


def _team_queue(platform: Platform, catalogue: Catalogue, team: Team) -> dict[str, Any]:
    """Return a team's queue, without a priority of its own.

    Queues with a higher priority would get all idle resources first, but teams share them by weight.
    """
    amounts = _amounts(platform, catalogue, guaranteed_nodes(platform)[team.name])
    resources = _resources(amounts, borrow=team.borrow, weight=team.fair_share)
    return _queue(team.name, {"parentQueue": parent_queue(platform), "resources": resources})


def _amounts(platform: Platform, catalogue: Catalogue, nodes: Mapping[str, int]) -> Counter[str]:
    """Return the resources of these nodes of each group, in KAI's units."""
    amounts = Counter[str]()
    for group in platform.node_groups:
        of_node, count = node_has(platform, catalogue, group), nodes[group.name]
        amounts["cpu"] += count * of_node["cpu"] * 1000
        amounts["memory"] += count * of_node["memory"] * 2**30 // 10**6
        amounts["gpu"] += count * of_node.get(GPU, 0)
    return amounts


def _resources(amounts: Counter[str], *, borrow: bool, weight: int) -> dict[str, dict[str, int]]:
    """Return an entry for every resource, because a queue without an entry could not use the resource at all."""
    return {
        name: {
            "quota": amounts[name],
            "limit": NO_LIMIT if borrow else amounts[name],
            "overQuotaWeight": weight if borrow else 0,
        }
        for name in ("cpu", "memory", "gpu")
    }


def _queue(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
