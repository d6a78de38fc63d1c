"""Platforms of every shape that the rules of the file allow, for what must be true of all of them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from trainway.manifests import cluster_manifests
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.kubernetes.rules import kai_tells_guaranteed_nodes_apart
from trainway.spec.platform import Platform
from trainway.spec.teams.rules import teams_share_what_exists

CATALOGUE = load_catalogue()
# NVIDIA with and without labels of the network, four layers of them, Neuron, and no accelerator; two of one family.
TYPES = ("p5.48xlarge", "p5.4xlarge", "p6-b200.48xlarge", "trn2.48xlarge", "g5.48xlarge", "m7i.8xlarge", "m7i.2xlarge")
NAMES = ("research", "product", "speech", "vision")


def platform_of(**changes: Any) -> Platform:
    """A platform with Kueue: two node groups and a team, some of whose keys are changed.

    It has no collector unless `changes` say so, because a collector has a namespace and a DaemonSet of its own.
    """
    return Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ["usw2-az2", "usw2-az1"],
            "node_groups": [
                {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 8},
                {"name": "data", "instance_type": "m7i.8xlarge", "count": 0, "max_count": 2},
            ],
            "teams": [{"name": "research", "guarantee": {"p5.48xlarge": 2}}],
            "observability": {"metrics": "none"},
        }
        | changes
    )


@st.composite
def platforms(draw: st.DrawFn) -> Platform:
    """A platform with Kueue, one to four node groups, and one to four teams that are guaranteed no more than exists."""
    groups: list[dict[str, Any]] = [
        {"name": f"group-{index}", "instance_type": draw(st.sampled_from(TYPES)), "count": count, "max_count": most}
        for index in range(draw(st.integers(1, 4)))
        for count in [draw(st.integers(0, 3))]
        for most in [draw(st.none() | st.integers(max(count, 1), 9))]
    ]
    left = dict.fromkeys([group["instance_type"] for group in groups], 0)
    for group in groups:
        left[group["instance_type"]] += max(group["count"], group["max_count"] or 1)
    teams = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        guarantee = {}
        for instance_type in draw(st.sets(st.sampled_from(sorted(left)))):
            guarantee[instance_type] = draw(st.integers(0, left[instance_type]))
            left[instance_type] -= guarantee[instance_type]
        priority = draw(st.sampled_from(["low", "normal", "high"]))
        teams.append({"name": name, "guarantee": guarantee, "borrow": draw(st.booleans()), "priority": priority})
    platform = platform_of(node_groups=groups, teams=teams)
    assert not list(teams_share_what_exists(platform, CATALOGUE))
    return platform


@st.composite
def kai_platforms(draw: st.DrawFn) -> Platform:
    """A platform with the KAI scheduler: a group or two of GPUs, perhaps one without, and one to four teams."""
    types = ["p5.48xlarge"] * draw(st.integers(1, 2)) + ["m7i.8xlarge"] * draw(st.integers(0, 1))
    groups: list[dict[str, Any]] = [
        {"name": f"group-{index}", "instance_type": name, "count": draw(st.integers(0, 9))}
        for index, name in enumerate(types)
    ]
    left = sum(max(group["count"], 1) for group in groups if group["instance_type"] == "p5.48xlarge")
    teams = []
    for name in NAMES[: draw(st.integers(1, 4))]:
        nodes = draw(st.integers(0, left))
        left -= nodes
        priority = draw(st.sampled_from(["low", "normal", "high"]))
        guarantee = {"p5.48xlarge": nodes}
        teams.append({"name": name, "guarantee": guarantee, "borrow": draw(st.booleans()), "priority": priority})
    platform = platform_of(node_groups=groups, teams=teams, kubernetes={"queues": "kai"})
    assert not list(kai_tells_guaranteed_nodes_apart(platform, CATALOGUE))
    return platform


def objects(platform: Platform, kind: str) -> list[dict[str, Any]]:
    """The objects of one kind, in the order they are applied in."""
    return [each for each in cluster_manifests(platform, CATALOGUE).values() if each.get("kind") == kind]


def named(platform: Platform, kind: str) -> dict[str, dict[str, Any]]:
    """The objects of one kind by their names."""
    return {each["metadata"]["name"]: each for each in objects(platform, kind)}
