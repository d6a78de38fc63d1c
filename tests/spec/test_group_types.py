"""What follows from a node group's type follows from each of them, where its nodes may be of several."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.anywhere import ANYWHERE
from tests.people import with_people
from trainway.manifests.kueue import queues
from trainway.plan import plan_document, plan_text
from trainway.spec.capacity.group_types import types_of
from trainway.spec.capacity.quotas import quota_needs
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.handoff import Nodes
from trainway.spec.kubernetes.charts import EFA_PLUGIN, NVIDIA_PLUGIN, chart_names
from trainway.spec.loader import load_platform
from trainway.spec.network.subnets import node_subnets
from trainway.spec.platform import Platform
from trainway.spec.teams.shares import guaranteed_nodes

CATALOGUE = load_catalogue()


def platform(tmp_path: Path, orchestrator: str, *types: str, **changes: Any) -> Platform:
    """A platform of one group, `train`, whose nodes may be of these types."""
    group = {"name": "train", "instance_type": types[0], "or_types": list(types[1:]), "count": 2, "max_count": 4}
    file = tmp_path / "platform.yaml"
    content = {
        "region": "us-west-2",
        "zones": ["usw2-az2", "usw2-az1"],
        "orchestrator": orchestrator,
        "accept": ANYWHERE,
    }
    file.write_text(yaml.safe_dump(with_people(content | {"node_groups": [group]} | changes)))
    return load_platform(file, CATALOGUE)


def test_the_types_come_in_the_order_of_the_file(tmp_path: Path) -> None:
    (group,) = platform(tmp_path, "hyperpod-eks", "p5e.48xlarge", "p5.48xlarge").node_groups
    assert [each.name for each in types_of(group, CATALOGUE)] == ["p5e.48xlarge", "p5.48xlarge"]


@pytest.mark.parametrize("types", [("m7i.large", "m7i.8xlarge"), ("m7i.8xlarge", "m7i.large")])
def test_a_subnet_has_room_for_nodes_that_are_all_of_the_largest_type(tmp_path: Path, types: tuple[str, ...]) -> None:
    (flexible,) = node_subnets(platform(tmp_path, "hyperpod-eks", *types), CATALOGUE)
    (large,) = node_subnets(platform(tmp_path, "hyperpod-eks", "m7i.8xlarge"), CATALOGUE)
    (small,) = node_subnets(platform(tmp_path, "hyperpod-eks", "m7i.large"), CATALOGUE)
    assert flexible.needs == large.needs
    assert flexible.addresses > small.addresses


def test_hyperpod_needs_the_quota_of_every_type(tmp_path: Path) -> None:
    needs = quota_needs(platform(tmp_path, "hyperpod-eks", "p5.48xlarge", "p5e.48xlarge"), CATALOGUE)
    needed = {need.name: need.needed for need in needs}
    assert needed["ml.p5.48xlarge for cluster usage"] == needed["ml.p5e.48xlarge for cluster usage"] == 4
    assert needed["Maximum number instances allowed per SageMaker HyperPod cluster"] == 4


def test_types_of_one_ec2_quota_take_it_once(tmp_path: Path) -> None:
    needs = quota_needs(platform(tmp_path, "eks", "p5.48xlarge", "p5e.48xlarge"), CATALOGUE)
    assert {need.name: need.needed for need in needs}["Running On-Demand P instances"] == 4 * 192


def test_the_devices_of_any_type_have_their_plugins(tmp_path: Path) -> None:
    charts = chart_names(platform(tmp_path, "eks", "g5.8xlarge", "g6e.8xlarge"), CATALOGUE)
    assert {EFA_PLUGIN, NVIDIA_PLUGIN} <= set(charts)


def test_a_queue_counts_no_more_than_every_node_has(tmp_path: Path) -> None:
    """An m7i has 4 GiB for each CPU, a c7i half of that; a g6e tells where it is in the network, a g5 does not."""
    teams = [{"name": "research", "guarantee": {"m7i.8xlarge": 3}}]
    shared = platform(tmp_path, "eks", "m7i.8xlarge", "c7i.12xlarge", teams=teams)
    assert guaranteed_nodes(shared) == {"research": {"train": 3}}
    (queue,) = [each for each in queues(shared, CATALOGUE) if each["kind"] == "ClusterQueue"]
    (flavor,) = queue["spec"]["resourceGroups"][0]["flavors"]
    quotas = {each["name"]: each["nominalQuota"] for each in flavor["resources"]}
    assert quotas == {"cpu": str(3 * 32), "memory": f"{3 * 96}Gi"}
    teams = [{"name": "research", "guarantee": {"g6e.8xlarge": 1}}]
    placed = queues(platform(tmp_path, "eks", "g6e.8xlarge", "g5.8xlarge", teams=teams), CATALOGUE)
    (flavor,) = [each for each in placed if each["kind"] == "ResourceFlavor"]
    assert flavor["spec"]["topologyName"] == "nodes"


def test_the_plan_names_every_type_and_the_pods_that_each_node_runs_at_least(tmp_path: Path) -> None:
    document = plan_document(platform(tmp_path, "hyperpod-eks", "m7i.8xlarge", "m7i.large"), CATALOGUE)
    (nodes,) = document["node_groups"]
    assert (nodes["instance_type"], nodes["or_types"]) == ("m7i.8xlarge", ["m7i.large"])
    assert nodes["pods_per_node"] == 29
    assert "m7i.8xlarge or m7i.large" in plan_text(document)


def test_a_launcher_reads_the_hand_off_of_a_deploy_that_knew_one_type_a_group() -> None:
    nodes = Nodes.model_validate({"name": "train", "instance_type": "p5.48xlarge", "count": 1, "max_count": 1})
    assert nodes.or_types == ()
