"""The nodes that a team can get of a group: now, at most, and ever, each with the key that bounds the number."""

from __future__ import annotations

from tests.manifests.platforms import CATALOGUE, platform_of
from trainway.spec.jobs.obtainable import obtainable, supply_of
from trainway.spec.sections.existing import ExistingCluster

GROUPS = [{"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 16}]
SMALL = {"name": "small", "guarantee": {"p5.48xlarge": 2}, "borrow": False}


def test_an_autoscaler_of_the_clusters_owner_can_scale_a_group() -> None:
    mine = platform_of(node_groups=GROUPS, teams=[], kubernetes={"autoscaling": False})
    existing = ExistingCluster.model_construct(name="shared", version="1.34")  # type: ignore[call-arg]
    owners = mine.kubernetes_or_default.model_copy(update={"existing": existing})
    for kubernetes, most in ((mine.kubernetes, 4), (owners, 16)):
        supply = supply_of(mine.model_copy(update={"kubernetes": kubernetes}), CATALOGUE)
        assert obtainable(supply, supply.node_groups[0]).at_most.nodes == most


def test_each_number_has_the_key_that_bounds_it() -> None:
    supply = supply_of(platform_of(node_groups=GROUPS, teams=[SMALL]), CATALOGUE)
    found = obtainable(supply, supply.node_groups[0], "small")
    assert [(each.nodes, each.key) for each in (found.now, found.at_most, found.ever)] == [
        (4, "node_groups[0].count"),
        (16, "node_groups[0].max_count"),
        (2, "teams[0].borrow"),
    ]
    assert obtainable(supply, supply.node_groups[0]).ever.nodes == 16
