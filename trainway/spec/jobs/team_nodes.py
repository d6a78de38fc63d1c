"""How many nodes of a group the quota of a team ever allows, by what shares the nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Literal

from trainway.spec.capacity.devices import devices_of
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.kubernetes.node_share import share_of_node
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup
from trainway.spec.sections.team import Team
from trainway.spec.slurm.slurm_accounts import has_own_qos
from trainway.spec.teams.shares import guaranteed_nodes, node_has

Queue = Literal["kueue", "kai", "run-ai", "task governance", "none"]
# What KAI and Run:ai count, beside CPUs and memory.
_GPU = "nvidia.com/gpu"


def queue_of(platform: Platform) -> Queue | None:
    """Return what shares the nodes of a platform on Kubernetes. None under Slurm, and if only its owner knows."""
    if not platform.orchestrator.is_kubernetes:
        return None
    if platform.task_governance:
        return "task governance"
    if platform.kueue:
        return "kueue"
    if platform.kai:
        return "kai"
    if platform.run_ai:
        # A Run:ai that its owners install has the node pools that they make.
        return "run-ai" if platform.installed_run_ai else None
    return None if platform.adopted_cluster else "none"


def team_nodes(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> dict[str, int]:
    """Return, by team, the most nodes of the group that a job of the team can have. A team without a limit is absent.

    On Kubernetes, only teams that may not borrow have a limit. Under Slurm it is that of the team's own QOS, in which
    jobs are that do not borrow.
    """
    if not platform.orchestrator.is_kubernetes:
        return {team.name: sum(team.guarantee.values()) for team in platform.teams if has_own_qos(team)}
    limited = [team for team in platform.teams if not team.borrow]
    found = {}
    for team in limited:
        requested = _requested(platform, group, catalogue)
        quotas = list(_quotas(platform, group, catalogue, team))
        fitting = [quota[name] // amount for quota in quotas for name, amount in requested.items() if name in quota]
        if fitting:
            found[team.name] = min(fitting)
    return found


def _requested(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> dict[str, int]:
    """Return what the pod of a job requests on a node of the group: millicores, MiB, and devices.

    Such a pod has the node to itself, but requests less CPU and memory than the node has. On nodes without devices, a
    quota of CPUs and memory therefore suffices for more pods than it has nodes.
    """
    cpu, memory = share_of_node(types_of(group, catalogue), platform.orchestrator)
    devices = {each.resource: each.count for each in devices_of(platform, group, catalogue)}
    return {"cpu": cpu, "memory": memory, **devices}


def _quotas(platform: Platform, group: NodeGroup, catalogue: Catalogue, team: Team) -> Iterator[Mapping[str, int]]:
    """Yield the quotas that a job of the team has to fit into on the group: of its queue, and of its namespace."""
    nodes = guaranteed_nodes(platform)[team.name]
    every = Counter[str]()
    for each in platform.node_groups:
        every.update(_amounts(platform, each, catalogue, nodes[each.name]))
    match queue_of(platform):
        case "kueue":
            # trainway/manifests/kueue.py: a flavor of each group. All pods of a job are of one flavor.
            yield _amounts(platform, group, catalogue, nodes[group.name])
        case "task governance":
            # stacks/constructs/hyperpod/task_governance.py: a flavor of each instance type.
            of_type = max(team.guarantee.get(name, 0) for name in group.instance_types)
            yield _amounts(platform, group, catalogue, of_type)
        case "kai":
            # trainway/manifests/kai.py: the resources of all groups together.
            yield {name: every[name] for name in ("cpu", "memory", _GPU)}
        case "run-ai" if group_gpus := node_has(platform, catalogue, group).get(_GPU):
            # trainway/manifests/run_ai_projects.py: a node pool of each group that has GPUs.
            yield {_GPU: nodes[group.name] * group_gpus}
    # trainway/manifests/guard_rails.py: the devices of the namespace.
    yield {name: amount for name, amount in every.items() if name not in ("cpu", "memory")}


def _amounts(platform: Platform, group: NodeGroup, catalogue: Catalogue, nodes: int) -> dict[str, int]:
    """Return what these nodes have: millicores, MiB, and devices."""
    has = node_has(platform, catalogue, group)
    units = {"cpu": 1000, "memory": 1024}
    return {name: nodes * amount * units.get(name, 1) for name, amount in has.items()}
