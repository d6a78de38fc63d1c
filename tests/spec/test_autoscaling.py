"""A group of EKS scales between count and max_count if the autoscaler can know its nodes before they exist."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests.platforms import CATALOGUE
from trainway.plan import plan_document, plan_text
from trainway.spec.capacity.autoscaling import fixed_because, node_group_sizes, resource_tags, scaled_groups
from trainway.spec.kubernetes.charts import CLUSTER_AUTOSCALER, PROVISIONING_REQUESTS, chart_names
from trainway.spec.network.endpoints import interface_endpoints
from trainway.spec.platform import Platform

TRAIN = {"name": "train", "instance_type": "p5.48xlarge", "count": 4, "max_count": 16}
DATA = {"name": "data", "instance_type": "m7i.8xlarge", "count": 0, "max_count": 8}
FIXED = {"name": "fixed", "instance_type": "p5.48xlarge", "count": 2}
BLOCK = {**TRAIN, "name": "block", "capacity": {"capacity_block": "cr-0123456789abcdef0"}}


def platform(*groups: dict[str, Any], **sections: Any) -> Platform:
    base = {"region": "us-west-2", "zones": ["usw2-az2", "usw2-az1"], "node_groups": list(groups)}
    return Platform.model_validate({**base, **sections})


def test_a_group_scales_from_count_to_max_count_and_one_without_room_keeps_its_nodes() -> None:
    of = platform(TRAIN, DATA, FIXED)
    assert [group.name for group in scaled_groups(of, CATALOGUE)] == ["train", "data"]
    assert [node_group_sizes(of, group, CATALOGUE) for group in of.node_groups] == [(4, 4, 16), (0, 0, 8), (2, 2, 2)]


def test_without_an_autoscaler_a_group_may_be_made_smaller_by_hand() -> None:
    of = platform(FIXED)
    assert [node_group_sizes(of, group, CATALOGUE) for group in of.node_groups] == [(0, 2, 2)]
    assert CLUSTER_AUTOSCALER not in chart_names(of, CATALOGUE)


@pytest.mark.parametrize(
    ("group", "kubernetes", "why"),
    [
        (TRAIN, {"autoscaling": False}, "kubernetes.autoscaling is false"),
        (BLOCK, {}, "Capacity Block is paid for"),
        (TRAIN, {"gpu_devices": "dra"}, "devices are claimed"),
        ({**TRAIN, "mig": "1g.10gb"}, {"gpu_devices": "operator"}, "GPUs are divided"),
    ],
    ids=["switched off", "Capacity Block", "DRA", "MIG"],
)
def test_a_group_that_cannot_scale_keeps_its_count_and_the_plan_says_why(
    group: dict[str, Any], kubernetes: dict[str, Any], why: str
) -> None:
    of = platform(group, kubernetes=kubernetes)
    (only,) = of.node_groups
    assert why in str(fixed_because(of, only, CATALOGUE))
    assert scaled_groups(of, CATALOGUE) == ()
    assert f"{only.name} stays at 4 of 16: " in plan_text(plan_document(of, CATALOGUE))


def test_the_autoscaler_leaves_the_nodes_of_groups_that_keep_their_count() -> None:
    of = platform(DATA, {**TRAIN, "mig": "1g.10gb"}, BLOCK, kubernetes={"gpu_devices": "operator"})
    _, divided, block = of.node_groups
    assert node_group_sizes(of, divided, CATALOGUE) == (4, 4, 4)
    # What comes and goes with the block's time is not the autoscaler's, and not held against it.
    assert node_group_sizes(of, block, CATALOGUE) == (0, 4, 16)


@pytest.mark.parametrize("orchestrator", ["hyperpod-eks", "hyperpod-slurm"])
def test_hyperpod_has_no_cluster_autoscaler(orchestrator: str) -> None:
    of = platform(TRAIN, DATA, orchestrator=orchestrator)
    assert scaled_groups(of, CATALOGUE) == ()
    assert "Cluster Autoscaler" not in plan_text(plan_document(of, CATALOGUE))


def test_the_plan_has_the_range_of_every_group_that_scales() -> None:
    text = plan_text(plan_document(platform(TRAIN, DATA, FIXED), CATALOGUE))
    assert "Scaled with the jobs by the Cluster Autoscaler: train 4–16, data 0–8." in text


def test_a_group_at_zero_says_which_devices_its_nodes_will_have() -> None:
    of = platform(TRAIN, DATA, FIXED)
    train, data, fixed = (resource_tags(of, group, CATALOGUE) for group in of.node_groups)
    prefix = "k8s.io/cluster-autoscaler/node-template/resources/"
    assert train == {f"{prefix}nvidia.com/gpu": "8", f"{prefix}vpc.amazonaws.com/efa": "32"}
    assert data == fixed == {}


def test_requests_for_all_nodes_at_once_need_kueue() -> None:
    teams = [{"name": "research"}]
    for sections, asked in (
        ({"teams": teams}, True),
        ({}, False),
        ({"teams": teams, "kubernetes": {"queues": "kai"}}, False),
    ):
        charts = chart_names(platform(TRAIN, **sections), CATALOGUE)
        assert CLUSTER_AUTOSCALER in charts
        assert (PROVISIONING_REQUESTS in charts) == asked


def test_a_closed_network_reaches_what_the_autoscaler_calls() -> None:
    assert {"autoscaling", "ec2", "eks"} <= set(interface_endpoints(platform(DATA, network="closed"), CATALOGUE))
    assert "autoscaling" not in interface_endpoints(platform(FIXED, network="closed"), CATALOGUE)
