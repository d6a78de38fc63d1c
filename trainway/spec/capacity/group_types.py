"""Instance types of a group. A node has one type, and its group may have several to choose from."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


def types_of(group: NodeGroup, catalogue: Catalogue) -> tuple[Instance, ...]:
    """Return the instance types that the group can use, in order of preference."""
    return tuple(catalogue[name] for name in group.instance_types)


def all_types(platform: Platform, catalogue: Catalogue) -> tuple[Instance, ...]:
    """Return the instance types of all groups, group by group."""
    return tuple(instance for group in platform.node_groups for instance in types_of(group, catalogue))
