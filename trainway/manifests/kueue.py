"""Kueue's queues, which hold a job until its team's nodes are free. Every node is quota of exactly one queue.

A job enters its team's queue by the label `kueue.x-k8s.io/queue-name`. It cannot bypass the queue. Kueue assigns a job
without the label to the LocalQueue `default`, which is why ours has that name. manageJobsWithoutQueueName, a value of
the chart, suspends jobs that Kueue misses. Pods are queued like jobs. Flavors without a toleration keep jobs without
tolerations off accelerated nodes, as the taints of the nodes themselves do.
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/setup_default_local_queue/ (read 2026-11-21)
https://kueue.sigs.k8s.io/docs/tasks/manage/enforce_job_management/manage_jobs_without_queue_name/ (read 2026-11-21)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.namespace import namespace_of
from trainway.manifests.taints import taints
from trainway.manifests.topology import topology, topology_name
from trainway.spec.capacity.autoscaling import scaled_groups
from trainway.spec.capacity.devices import device_counts
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.team import Team
from trainway.spec.teams.shares import guaranteed_nodes, node_has, spare_nodes

# The newest version of the API; Kueue 0.20 serves no other.
# https://github.com/kubernetes-sigs/kueue/blob/main/CHANGELOG/CHANGELOG-0.20.md (read 2026-11-21)
API = "kueue.x-k8s.io/v1beta2"
LOCAL_QUEUE = "default"
# Priorities among a team's own jobs. A job without a class has priority 0, which is that of `normal`.
# https://kueue.sigs.k8s.io/docs/concepts/workload_priority_class/ (read 2026-11-21)
PRIORITIES = {"low": -100, "normal": 0, "high": 100}
# Name of the admission check for requested nodes, and of its configuration.
NODES_ARE_ASKED_FOR = "nodes-are-asked-for"
# Largest value that the field allows.
FOR_EVER = 2**31 - 1


def queues(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the cluster-wide objects: topologies, flavors, priority classes, the cohort, and a ClusterQueue per team.

    Empty without Kueue.
    """
    if not platform.kueue:
        return []
    topologies = {topology_name(platform.region, *types_of(group, catalogue)) for group in platform.node_groups}
    return [
        *(topology(name, API) for name in sorted(topologies)),
        *(_flavor(platform, catalogue, group) for group in platform.node_groups),
        *(_priority_class(name, value) for name, value in PRIORITIES.items()),
        *_admission_check(platform, catalogue),
        _cohort(platform, catalogue),
        *(_cluster_queue(platform, catalogue, team) for team in platform.teams),
    ]


def local_queue(platform: Platform, team: Team) -> list[dict[str, Any]]:
    """Return the LocalQueue of a team's namespace, which has the same name in all namespaces. Empty without Kueue."""
    if not platform.kueue:
        return []
    metadata = {"name": LOCAL_QUEUE, "namespace": namespace_of(platform, team)}
    return [_object("LocalQueue", metadata, {"clusterQueue": team.name})]


def flavor_name(group: NodeGroup, topology: str) -> str:
    """Return the name of a node group's ResourceFlavor.

    It contains the topology, because the topology of a flavor cannot change.
    """
    return f"{group.name}-{topology}"


def _flavor_of(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> str:
    return flavor_name(group, topology_name(platform.region, *types_of(group, catalogue)))


def _flavor(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> dict[str, Any]:
    types = types_of(group, catalogue)
    topology = topology_name(platform.region, *types)
    spec = {
        "nodeLabels": {NODES_LABEL: group.name},
        "nodeTaints": taints(types[0]),
        "topologyName": topology,
    }
    return _object("ResourceFlavor", {"name": flavor_name(group, topology)}, spec)


def _priority_class(name: str, value: int) -> dict[str, Any]:
    return {
        "apiVersion": API,
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": value,
        "description": f"{name.capitalize()} priority among the jobs of a team.",
    }


def _admission_check(platform: Platform, catalogue: Catalogue) -> list[dict[str, Any]]:
    """Return the check by which Kueue requests all nodes of a job at once from the Cluster Autoscaler.

    Empty if no group scales. The autoscaler requests all nodes from EC2 or none, within max_count. Kueue then waits for
    the nodes, and starts the pods when each has a node: every flavor has a topology, in which Kueue looks for nodes
    that exist. If capacity is short, it retries forever. A job is not rejected because others have the nodes today.
    https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-1.35.0/cluster-autoscaler/FAQ.md
    https://kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request/
    https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/#clusterautoscaler-support (all read 2026-11-22)
    """
    if not scaled_groups(platform, catalogue):
        return []
    how = {
        "provisioningClassName": "best-effort-atomic-scale-up.autoscaling.x-k8s.io",
        # A job has one or two kinds of pods, and a request has one entry for each kind.
        "podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements",
        "retryStrategy": {"backoffLimitCount": FOR_EVER, "backoffBaseSeconds": 60, "backoffMaxSeconds": 1800},
    }
    check = {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {
            "apiGroup": "kueue.x-k8s.io",
            "kind": "ProvisioningRequestConfig",
            "name": NODES_ARE_ASKED_FOR,
        },
    }
    metadata = {"name": NODES_ARE_ASKED_FOR}
    return [_object("ProvisioningRequestConfig", metadata, how), _object("AdmissionCheck", metadata, check)]


def _checks(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the admission checks of a queue, only for groups that scale. The nodes of other groups exist already."""
    flavors = [_flavor_of(platform, catalogue, group) for group in scaled_groups(platform, catalogue)]
    if not flavors:
        return {}
    return {"admissionChecksStrategy": {"admissionChecks": [{"name": NODES_ARE_ASKED_FOR, "onFlavors": flavors}]}}


def _cohort(platform: Platform, catalogue: Catalogue) -> dict[str, Any]:
    """Return the cohort. Its own quota is the nodes that no team is guaranteed, which every team with `borrow` can use.

    https://kueue.sigs.k8s.io/docs/concepts/cohort/ (read 2026-11-21)
    """
    group = _resource_group(platform, catalogue, spare_nodes(platform), list(platform.node_groups))
    return _object("Cohort", {"name": platform.name}, {"resourceGroups": [group]})


def _cluster_queue(platform: Platform, catalogue: Catalogue, team: Team) -> dict[str, Any]:
    nodes = guaranteed_nodes(platform)[team.name]

    def last_choice(group: NodeGroup) -> tuple[bool, bool]:
        return catalogue[group.instance_type].accelerator is not None, not nodes[group.name]

    # Kueue takes the first flavor with room, borrowed or not. Flavors without devices come first for jobs without
    # devices, and the team's own nodes come before those that others can take back.
    groups = sorted(platform.node_groups, key=last_choice)
    limit = {} if team.borrow else {"borrowingLimit": "0"}
    spec = {
        "cohortName": platform.name,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace_of(platform, team)}},
        "resourceGroups": [_resource_group(platform, catalogue, nodes, groups, limit)],
        **_checks(platform, catalogue),
        # Borrowed nodes return to their team, whatever runs on them, because they are guaranteed. Within the team, the
        # job of higher priority goes first. Between teams that borrow, weight decides instead of priority:
        # `borrowWithinCohort` does not apply to fair sharing.
        # https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#preemption (read 2026-11-21)
        "preemption": {
            "reclaimWithinCohort": "Any",
            "withinClusterQueue": "LowerPriority",
            "borrowWithinCohort": {"policy": "Never"},
        },
        # https://kueue.sigs.k8s.io/docs/concepts/preemption/#fair-sharing (read 2026-11-21)
        "fairSharing": {"weight": str(team.fair_share)},
    }
    return _object("ClusterQueue", {"name": team.name}, spec)


def _resource_group(
    platform: Platform,
    catalogue: Catalogue,
    nodes: Mapping[str, int],
    groups: list[NodeGroup],
    limit: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return nodes as quota. All resources are in one group, so that all resources of a pod come from the same nodes.

    A flavor lists every covered resource, in the same order, with 0 for those that its nodes lack.
    """
    devices = {name for group in platform.node_groups for name in device_counts(platform, group, catalogue)}
    resources = ["cpu", "memory", *sorted(devices)]
    flavors = []
    for group in groups:
        amounts = _amounts(node_has(platform, catalogue, group), nodes[group.name])
        quotas = [{"name": name, "nominalQuota": amounts.get(name, "0"), **(limit or {})} for name in resources]
        flavors.append({"name": _flavor_of(platform, catalogue, group), "resources": quotas})
    return {"coveredResources": resources, "flavors": flavors}


def _amounts(of_node: Mapping[str, int], nodes: int) -> dict[str, str]:
    """Return the resources of these nodes, as Kubernetes quantities."""
    amounts = {name: nodes * amount for name, amount in of_node.items()}
    return {name: f"{amount}Gi" if name == "memory" else str(amount) for name, amount in amounts.items()}


def _object(kind: str, metadata: Mapping[str, str], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": dict(metadata), "spec": dict(spec)}
