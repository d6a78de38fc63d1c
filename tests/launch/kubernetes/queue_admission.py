"""Which node group Kueue or the KAI scheduler gives a rendered job, on a platform on which nothing else runs.

Only the objects of the platform and of the job decide, as their controllers read them. Nodes exist as far as the group
grows.
https://github.com/kubernetes-sigs/kueue/blob/main/pkg/scheduler/flavorassigner/flavorassigner.go
https://kueue.sigs.k8s.io/docs/concepts/cluster_queue/#borrowinglimit
https://github.com/kai-scheduler/KAI-Scheduler/blob/v0.16.8/docs/queues/README.md (all read 2026-11-29)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from tests.manifests.platforms import CATALOGUE, named, objects
from trainway.launch.kubernetes.options import KubernetesOptions
from trainway.launch.kubernetes.render import render_documents
from trainway.launch.program.request import Request
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.capacity.autoscaling import growth
from trainway.spec.platform import Platform

UNITS = {"m": 0.001, "Gi": 2**30, "Mi": 2**20}


def admitted_group(platform: Platform, request: Request) -> str | None:
    """Return the node group on which the pods of the job start. None if they never do."""
    spec, pods = _pods(request)
    total = {name: amount * pods for name, amount in _requests(spec).items()}
    for group in _within_quota(platform, request, spec, total):
        found = next(each for each in platform.node_groups if each.name == group)
        if growth(platform, found, CATALOGUE)[0] >= pods:
            return group
    return None


def selects(spec: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a pod's selector and required affinity match these labels. Other labels do not matter."""
    wanted = {key: [value] for key, value in (spec.get("nodeSelector") or {}).items() if key in labels}
    if not all(labels[key] in values for key, values in wanted.items()):
        return False
    nodes = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = nodes.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms", [])
    return not terms or any(
        all(labels[each["key"]] in each["values"] for each in term["matchExpressions"] if each["key"] in labels)
        for term in terms
    )


def _pods(request: Request) -> tuple[dict[str, Any], int]:
    *_, job = render_documents(request, CATALOGUE, KubernetesOptions(kind="JobSet"))
    of_nodes = job["spec"]["replicatedJobs"][0]["template"]["spec"]
    return of_nodes["template"]["spec"], of_nodes["parallelism"]


def _requests(spec: Mapping[str, Any]) -> dict[str, float]:
    resources = spec["containers"][0]["resources"]
    return {name: _number(amount) for name, amount in (resources.get("limits", {}) | resources["requests"]).items()}


def _number(amount: object) -> float:
    text = str(amount)
    unit = next((each for each in UNITS if text.endswith(each)), "")
    return float(text.removesuffix(unit)) * UNITS.get(unit, 1)


def _within_quota(
    platform: Platform, request: Request, spec: Mapping[str, Any], total: Mapping[str, float]
) -> Iterator[str]:
    """Yield the groups on which the job is within the quotas of its team, in the order in which they are tried."""
    team = str(request.program.team)
    if platform.kai:
        limits = named(platform, "Queue")[team]["spec"]["resources"]
        # Thousandths of a CPU, and megabytes.
        asked = {"cpu": total["cpu"] * 1000, "memory": total["memory"] / 10**6, "gpu": total.get("nvidia.com/gpu", 0)}
        if all(limits[name]["limit"] in (-1,) or asked[name] <= limits[name]["limit"] for name in asked):
            yield from (each.name for each in platform.node_groups if selects(spec, {NODES_LABEL: each.name}))
        return
    labels = {each["metadata"]["name"]: each["spec"]["nodeLabels"] for each in objects(platform, "ResourceFlavor")}
    queue, cohort = named(platform, "ClusterQueue")[team], _nominal(platform)
    for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
        own = {each["name"]: each for each in flavor["resources"]}
        most = {
            name: _number(each["nominalQuota"]) if each.get("borrowingLimit") == "0" else cohort[flavor["name"], name]
            for name, each in own.items()
        }
        if selects(spec, labels[flavor["name"]]) and all(amount <= most[name] for name, amount in total.items()):
            yield labels[flavor["name"]][NODES_LABEL]


def _nominal(platform: Platform) -> Counter[tuple[str, str]]:
    """Return the quotas of all queues and of the cohort together, by flavor and resource."""
    added = Counter[tuple[str, str]]()
    for queue in (*objects(platform, "ClusterQueue"), *objects(platform, "Cohort")):
        for flavor in queue["spec"]["resourceGroups"][0]["flavors"]:
            for each in flavor["resources"]:
                added[flavor["name"], each["name"]] += _number(each["nominalQuota"])  # type: ignore[assignment]
    return added
