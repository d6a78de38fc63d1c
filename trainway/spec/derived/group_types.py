"""What the nodes of a group may be: a node is of one type, and its group may have several to choose from."""

from __future__ import annotations

from trainway.spec.facts.catalogue import Catalogue, Instance
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


def types_of(group: NodeGroup, catalogue: Catalogue) -> tuple[Instance, ...]:
    """The instance types that the group's nodes may be of, the first choice first."""
    return tuple(catalogue[name] for name in group.instance_types)


def all_types(platform: Platform, catalogue: Catalogue) -> tuple[Instance, ...]:
    """The instance types that a node of any group may be of, group by group."""
    return tuple(instance for group in platform.node_groups for instance in types_of(group, catalogue))
