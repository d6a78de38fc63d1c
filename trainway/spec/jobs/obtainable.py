"""How many nodes of a group a job of a team can get: now, at most until another deploy, and ever with its quota."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainway.spec.capacity.autoscaling import growth
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.handoff import HandOff, Nodes, TeamShare
from trainway.spec.jobs.team_nodes import team_nodes
from trainway.spec.platform import Platform
from trainway.spec.sections.node_group import NodeGroup


@dataclass(frozen=True)
class Bound:
    """A number of nodes, the key of the platform file that bounds it, why, and what raises it."""

    nodes: int
    key: str
    why: str
    fix: str


@dataclass(frozen=True)
class Obtainable:
    """The nodes of a group: those that the deploy makes, those to which it grows, and those that a team can have."""

    now: Bound
    at_most: Bound
    ever: Bound


class Supply(Protocol):
    """The nodes and the teams of a platform, as its hand-off has them."""

    @property
    def node_groups(self) -> tuple[Nodes, ...]:
        """The node groups, in the order of the file."""

    @property
    def team_shares(self) -> tuple[TeamShare, ...]:
        """The guarantees of the teams, in the order of the file."""


@dataclass(frozen=True)
class PlatformSupply:
    """The nodes and the teams of a platform file."""

    node_groups: tuple[Nodes, ...]
    team_shares: tuple[TeamShare, ...]


def supply_of(platform: Platform, catalogue: Catalogue) -> PlatformSupply:
    """Return the nodes and the teams of a platform file."""
    groups = tuple(
        Nodes(name=group.name, instance_type=group.instance_type, **nodes_that_grow(platform, group, catalogue))
        for group in platform.node_groups
    )
    return PlatformSupply(groups, team_shares(platform))


def obtainable(supply: Supply, group: Nodes, team: str | None = None, *, borrows: bool = False) -> Obtainable:
    """Return the nodes of a group that a job of the team can get. A job of no team has no quota.

    A job that `borrows` has the option `--borrow` of Slurm, which leaves the limit of the team's own QOS. In a hand-off
    that does not say to how many nodes a group grows, it grows to `max_count`.
    """
    index = next(index for index, each in enumerate(supply.node_groups) if each.name == group.name)
    key = f"node_groups[{index}]"
    now = Bound(group.count, f"{key}.count", f"{group.name} has {_nodes(group.count)}", "raise `count` and deploy")
    at_most = _growth(group, key)
    return Obtainable(now, at_most, _quota(group, at_most, team, supply.team_shares, borrows=borrows))


def nodes_that_grow(platform: Platform, group: NodeGroup, catalogue: Catalogue) -> dict[str, Any]:
    """Return what a hand-off says of a group about the number of its nodes: fields of Nodes."""
    most, fixed_by = growth(platform, group, catalogue)
    return {
        "count": group.count,
        "max_count": group.largest,
        "most": most,
        "fixed_by": fixed_by,
        "team_nodes": team_nodes(platform, group, catalogue),
    }


def team_shares(platform: Platform) -> tuple[TeamShare, ...]:
    """Return the guarantees of the teams as a hand-off has them."""
    return tuple(TeamShare(name=team.name, guarantee=team.guarantee, borrow=team.borrow) for team in platform.teams)


def completed(hand_off: HandOff, platform: Platform, catalogue: Catalogue) -> HandOff:
    """Return a hand-off of an earlier deploy with what the platform file says about the number of nodes.

    A group whose size differs between the two is left as it is, because the file is not the one that was deployed.
    """
    if all(group.most is not None for group in hand_off.node_groups):
        return hand_off
    if hand_off.teams != tuple(team.name for team in platform.teams):
        return hand_off
    known = {(group.name, group.count, group.largest): group for group in platform.node_groups}
    if not any((nodes.name, nodes.count, nodes.max_count) in known for nodes in hand_off.node_groups):
        return hand_off
    groups = []
    for nodes in hand_off.node_groups:
        found = known.get((nodes.name, nodes.count, nodes.max_count))
        groups.append(nodes.model_copy(update=nodes_that_grow(platform, found, catalogue)) if found else nodes)
    return hand_off.model_copy(update={"node_groups": tuple(groups), "team_shares": team_shares(platform)})


def _growth(group: Nodes, key: str) -> Bound:
    most = group.max_count if group.most is None else group.most
    if group.fixed_by is None:
        name = "max_count" if group.max_count > group.count else "count"
        why = f"{group.name} has at most {most}"
        return Bound(most, f"{key}.{name}", why, "raise the group's max_count and deploy")
    because, fix = _FIXED.get(group.fixed_by, _FIXED["count"])
    where = group.fixed_by if "." in group.fixed_by else f"{key}.{group.fixed_by}"
    why = (
        f"{group.name} has {_nodes(most)} ({key}.count), and nothing adds nodes up to its max_count of "
        f"{group.max_count}: {because}"
    )
    return Bound(most, where, why, fix)


# By the key that keeps a group at its count: why, and what adds nodes.
_FIXED = {
    "kubernetes.autoscaling": (
        "kubernetes.autoscaling is false",
        "set kubernetes.autoscaling to true or raise `count`, and deploy",
    ),
    "hyperpod.autoscaling": (
        "hyperpod.autoscaling is false",
        "raise `count`, or set hyperpod.autoscaling to true and the group's `count` to 0, and deploy",
    ),
    "capacity": ("the nodes of a Capacity Block are paid for from start to end", "raise `count` and deploy"),
    "mig": ("the autoscaler does not know divided GPUs before a node has started", "raise `count` and deploy"),
    "kubernetes.gpu_devices": (
        "kubernetes.gpu_devices is dra, and the autoscaler does not know claimed devices before a node has started",
        "raise `count`, or set kubernetes.gpu_devices to another value, and deploy",
    ),
    "kubernetes.efa_devices": (
        "kubernetes.efa_devices is dra, and the autoscaler does not know claimed devices before a node has started",
        "raise `count`, or set kubernetes.efa_devices to another value, and deploy",
    ),
    "count": ("HyperPod keeps the group at its count", "raise `count` and deploy"),
}


def _quota(group: Nodes, at_most: Bound, team: str | None, shares: Sequence[TeamShare], *, borrows: bool) -> Bound:
    index = next((index for index, share in enumerate(shares) if share.name == team), None)
    limit = None if team is None else group.team_nodes.get(team)
    if index is None or limit is None or limit >= at_most.nodes:
        return at_most
    share, key = shares[index], f"teams[{index}]"
    if share.borrow and borrows:
        return at_most
    guaranteed = ", ".join(f"{count} × {name}" for name, count in share.guarantee.items() if count) or "no node"
    why = f"the team {team} can have {_nodes(limit)} of {group.name}: it is guaranteed {guaranteed} ({key}.guarantee), "
    if share.borrow:
        return Bound(
            limit,
            f"{key}.guarantee",
            f"{why}and the job does not borrow",
            f"launch with --borrow, or raise {key}.guarantee and deploy",
        )
    fix = f"raise {key}.guarantee, or set {key}.borrow to true, and deploy"
    return Bound(limit, f"{key}.borrow", f"{why}and {key}.borrow is false", fix)


def _nodes(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"
