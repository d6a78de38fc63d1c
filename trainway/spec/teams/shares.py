"""Convert the teams' guarantees, which name instance types, to nodes of node groups."""

from __future__ import annotations

from trainway.spec.capacity.devices import device_counts
from trainway.spec.capacity.group_types import types_of
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


def node_has(platform: Platform, catalogue: Catalogue, group: NodeGroup) -> dict[str, int]:
    """Return the CPUs, memory (GiB), and devices that a node of the group has at least, for any of its types."""
    types = types_of(group, catalogue)
    cpu, memory = min(each.vcpus for each in types), min(each.memory_gib for each in types)
    return {"cpu": cpu, "memory": memory, **device_counts(platform, group, catalogue)}


def guaranteed_nodes(platform: Platform) -> dict[str, dict[str, int]]:
    """Return, by team and node group, the nodes that the team can always have.

    Groups of one type are assigned in the order of the file, team by team, so that few teams have nodes in two groups.
    """
    left = {group.name: group.largest for group in platform.node_groups}
    nodes = {team.name: dict.fromkeys(left, 0) for team in platform.teams}
    for team in platform.teams:
        for instance_type, count in team.guarantee.items():
            for group in platform.node_groups:
                if group.instance_type == instance_type:
                    taken = min(count, left[group.name])
                    nodes[team.name][group.name] += taken
                    left[group.name] -= taken
                    count -= taken
    return nodes


def spare_nodes(platform: Platform) -> dict[str, int]:
    """Return, by node group at its largest size, the nodes that no team is guaranteed."""
    guaranteed = guaranteed_nodes(platform)
    return {
        group.name: group.largest - sum(nodes[group.name] for nodes in guaranteed.values())
        for group in platform.node_groups
    }
