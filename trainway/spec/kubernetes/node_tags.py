"""Tags of the EC2 instances and volumes of node groups, which are part of the launch template.

A new version of a launch template replaces the nodes of its group. The lock therefore keeps the tags with which a group
was created. `trainway upgrade`, which replaces nodes anyway, writes the tags of the platform file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trainway.spec.kubernetes.ami_releases import SYSTEM_NODES
from trainway.spec.lock import Lock
from trainway.spec.platform import Platform


def node_tags(platform: Platform, group: str) -> dict[str, str]:
    """Return the tags of a node group's instances and volumes: those of the lock, or of the file for a new group."""
    return platform.lock.node_tags.get(group, dict(platform.tags))


def locked_node_tags(platform: Platform) -> dict[str, dict[str, str]]:
    """Return the tags of the instances and volumes of each node group of EC2, by the group's name."""
    return {name: node_tags(platform, name) for name in _groups_of_ec2(platform)}


def with_tags_of_the_file(platform: Platform, lock: Lock, groups: Collection[str]) -> Lock:
    """Return a lock in which these groups have the tags of the platform file."""
    changed = {name: dict(platform.tags) for name in groups if node_tags(platform, name) != platform.tags}
    return lock.model_copy(update={"node_tags": lock.node_tags | changed})


def _groups_of_ec2(platform: Platform) -> Iterator[str]:
    """Yield the node groups that have a launch template. HyperPod's instances are not in the platform's account."""
    if platform.orchestrator.is_kubernetes:
        yield SYSTEM_NODES
        if not platform.orchestrator.is_hyperpod:
            yield from (group.name for group in platform.node_groups)
