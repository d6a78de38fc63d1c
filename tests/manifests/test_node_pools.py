"""HyperPod's Karpenter is told of the groups that begin without a node, and of no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.platforms import platform_of
from tests.seams.kubernetes.definitions import need_definitions
from tests.seams.kubernetes.reader import read
from trainway.manifests import cluster_manifests
from trainway.manifests.chart_values import NODES_LABEL
from trainway.spec.facts.catalogue import load_catalogue
from trainway.spec.platform import Platform

CATALOGUE = load_catalogue()
VERSION = platform_of().kubernetes_or_default.version
PLAN = {"training_plan": "arn:aws:sagemaker:us-west-2:111122223333:training-plan/x"}
GROUPS = [
    {"name": "train", "instance_type": "p5.48xlarge", "count": 2, "max_count": 8},
    {"name": "planned", "instance_type": "p5.48xlarge", "count": 0, "max_count": 8, "capacity": PLAN},
    {"name": "tune", "instance_type": "g6e.12xlarge", "count": 0, "max_count": 8, "capacity": "spot"},
    {"name": "data", "instance_type": "m7i.8xlarge", "or_types": ["c6i.4xlarge"], "count": 0, "max_count": 4},
]


def pools(**changes: Any) -> dict[tuple[str, str], dict[str, Any]]:
    """What is applied once Karpenter is there, by kind and name."""
    platform = Platform.model_validate(
        {
            "region": "us-west-2",
            "zones": ["usw2-az2", "usw2-az1"],
            "orchestrator": "hyperpod-eks",
            "node_groups": GROUPS,
            "hyperpod": {"autoscaling": True},
        }
        | changes
    )
    files = cluster_manifests(platform, CATALOGUE)
    made = [manifest for name, manifest in files.items() if name.startswith("autoscaling/")]
    return {(each["kind"], each["metadata"]["name"]): each for each in made}


def test_each_group_that_begins_without_a_node_has_its_class_before_its_pool() -> None:
    assert list(pools()) == [(kind, name) for name in ("tune", "data") for kind in ("HyperpodNodeClass", "NodePool")]
    for (kind, name), manifest in pools().items():
        if kind == "HyperpodNodeClass":
            assert manifest["spec"]["instanceGroups"] == [name]
        else:
            assert manifest["spec"]["template"]["spec"]["nodeClassRef"]["name"] == name


def test_karpenter_knows_the_labels_and_taints_that_the_nodes_will_have() -> None:
    tune, data = (pools()["NodePool", name]["spec"]["template"] for name in ("tune", "data"))
    assert tune["metadata"]["labels"] == {NODES_LABEL: "tune"}
    assert tune["spec"]["taints"] == [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    assert "taints" not in data["spec"]


def test_a_pool_grows_no_further_than_its_groups_subnet() -> None:
    """Eight nodes of four GPUs each; four of the type with the fewer CPUs, of which a c6i.4xlarge has sixteen."""
    assert pools()["NodePool", "tune"]["spec"]["limits"] == {"nvidia.com/gpu": "32"}
    assert pools()["NodePool", "data"]["spec"]["limits"] == {"cpu": "64"}


def test_a_node_with_a_jobs_pod_stays() -> None:
    for (kind, _), manifest in pools().items():
        if kind == "NodePool":
            assert manifest["spec"]["disruption"]["consolidationPolicy"] == "WhenEmpty"
            assert manifest["spec"]["template"]["spec"]["expireAfter"] == "Never"


def test_karpenter_accepts_every_object() -> None:
    need_definitions()
    assert [each for made in pools().values() for each in read(made, VERSION)] == []


@pytest.mark.parametrize(
    "changes", [{"hyperpod": {}}, {"orchestrator": "eks", "hyperpod": None}], ids=["not asked for", "eks"]
)
def test_without_hyperpods_karpenter_there_are_none(changes: dict[str, Any]) -> None:
    assert pools(**changes) == {}
