"""What the deploy makes in Run:ai's control plane: node pools, and a project with the quota of each team.

A node pool has the nodes of one node group, because a guarantee is a number of nodes of a type, and a job runs on the
nodes of one group. The department has all GPUs, and below it a project of each team has those that the team is
guaranteed. The rest is shared by weight, as between the KAI scheduler's queues.
https://docs.nvidia.com/run-ai/self-hosted/documentation/platform-management/runai-scheduler/scheduling/concepts-and-principles
https://docs.nvidia.com/run-ai/self-hosted/documentation/platform-management/manage-ai-initiatives/resources/node-pools
(both read 2026-11-27)
"""

from __future__ import annotations

from typing import Any

from trainway.manifests.chart_values import NODES_LABEL
from trainway.manifests.namespace import namespace_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.team import FAIR_SHARE, Team
from trainway.spec.teams.shares import guaranteed_nodes, node_has

GPU = "nvidia.com/gpu"
DEFAULT_POOL = "default"
NO_LIMIT = -1
# The largest weight of a project above its quota.
# https://run-ai-docs.nvidia.com/api/2.24 (gpu.overQuotaWeight, read 2026-11-27)
LARGEST_WEIGHT = 20


def run_ai_projects(platform: Platform, catalogue: Catalogue) -> dict[str, Any] | None:
    """Return what delivery/run_ai.py makes in the control plane: node pools, a department, and the teams' projects.

    None without a section `run_ai`. Quotas are numbers of GPUs, by the name of the node pool.
    """
    section = platform.installed_run_ai
    if section is None:
        return None
    gpus = {group.name: node_has(platform, catalogue, group).get(GPU, 0) for group in platform.node_groups}
    pools = [name for name, count in gpus.items() if count]
    guaranteed = guaranteed_nodes(platform)
    largest = {group.name: group.largest for group in platform.node_groups}
    return {
        "control_plane": section.control_plane,
        "node_pools": [{"name": name, "labelKey": NODES_LABEL, "labelValue": name} for name in pools],
        "department": {
            "name": platform.name,
            "quotas": {name: {"deserved": largest[name] * gpus[name], "limit": NO_LIMIT} for name in pools},
        },
        "projects": [
            {
                "name": team.name,
                "namespace": namespace_of(platform, team),
                "default_node_pools": [*pools, DEFAULT_POOL],
                "quotas": {name: _quota(team, guaranteed[team.name][name] * gpus[name]) for name in pools},
            }
            for team in platform.teams
        ],
    }


def _quota(team: Team, gpus: int) -> dict[str, int]:
    """Return a team's quota in a node pool. A team that does not borrow has its quota as its limit."""
    if not team.borrow:
        return {"deserved": gpus, "limit": gpus}
    weight = team.fair_share * LARGEST_WEIGHT // max(FAIR_SHARE.values())
    return {"deserved": gpus, "limit": NO_LIMIT, "overQuotaWeight": weight}
