"""A node group is refused for the nodes that run, whatever its template says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from trainway.diff.compare import Action, PropertyEdit, ResourceDiff
from trainway.diff.costs import cost_of
from trainway.diff.create_only import Verdict
from trainway.diff.live_nodes import with_live_nodes
from trainway.diff.protected import is_protected
from trainway.diff.tokens import Id


class Clients:
    """AWS's answers to the calls that count nodes; without `nodes` they are refused."""

    def __init__(self, nodes: int | None) -> None:
        self.nodes = nodes

    def client(self, _service: str) -> Any:
        return self

    def get_paginator(self, operation: str) -> Any:
        if self.nodes is None:
            raise ClientError({"Error": {"Code": "AccessDenied"}}, operation)
        pages: dict[str, dict[str, Any]] = {
            "list_nodegroups": {"nodegroups": ["g-1"]},
            "list_cluster_nodes": {"ClusterNodeSummaries": [{"InstanceGroupName": "train"}] * self.nodes},
        }
        self.page = pages[operation]
        return self

    def paginate(self, **_arguments: str) -> list[dict[str, Any]]:
        return [self.page]

    def describe_nodegroup(self, **_arguments: str) -> dict[str, Any]:
        return {"nodegroup": {"labels": {"trainway.dev/nodes": "train"}, "scalingConfig": {"desiredSize": self.nodes}}}


def removed(kind: str) -> ResourceDiff:
    scaled = {"Labels": {"trainway.dev/nodes": "train"}, "ScalingConfig": {"DesiredSize": 1}}
    counted = {"InstanceGroupName": "train", "InstanceCount": 1}
    properties = scaled if kind == "AWS::EKS::Nodegroup" else counted
    return ResourceDiff(Id("s", "G"), kind, Action.DELETED, before={"Type": kind, "Properties": properties})


@pytest.mark.parametrize("kind", ["AWS::EKS::Nodegroup", "instance group"])
@pytest.mark.parametrize(
    ("nodes", "cost"),
    [(0, ""), (4, "4 nodes stop, and the jobs on them"), (None, "1 node stops, and the jobs on it")],
    ids=["idle", "scaled up", "nobody may ask"],
)
def test_the_nodes_that_run_are_the_ones_that_a_deploy_stops(kind: str, nodes: int | None, cost: str) -> None:
    account: Any = Clients(nodes)
    (found,) = with_live_nodes([removed(kind)], account, "p")
    assert cost_of(found) == cost
    assert is_protected(found, (), {}) is bool(cost)


def resized(kind: str, before: int, after: int) -> ResourceDiff:
    def definition(count: int) -> dict[str, Any]:
        size = {"ScalingConfig": {"DesiredSize": count}} if kind == "AWS::EKS::Nodegroup" else {"InstanceCount": count}
        return {
            "Type": kind,
            "Properties": {"Labels": {"trainway.dev/nodes": "train"}, "InstanceGroupName": "train", **size},
        }

    path = ("ScalingConfig", "MaxSize") if kind == "AWS::EKS::Nodegroup" else ("InstanceCount",)
    edit = PropertyEdit(path, Verdict.UPDATE, 1, 2)
    return ResourceDiff(Id("s", "G"), kind, Action.CHANGED, (edit,), definition(before), definition(after))


@pytest.mark.parametrize("kind", ["AWS::EKS::Nodegroup", "instance group"])
@pytest.mark.parametrize(
    ("running", "before", "after", "cost", "refused"),
    [
        (16, 0, 0, "from 16 running nodes to 0: 16 nodes stop, and the jobs on them", True),
        (5, 2, 3, "from 5 running nodes to 3: 2 nodes stop, and the jobs on them", True),
        (6, 4, 3, "from 6 running nodes to 3: 3 nodes stop, and the jobs on them", True),
        (4, 4, 3, "from 4 running nodes to 3: 1 node stops, and the jobs on it", False),
        (3, 4, 3, "", False),
        (1, 0, 3, "2 nodes more", False),
        (None, 4, 3, "from 4 running nodes to 3: 1 node stops, and the jobs on it", False),
    ],
)
def test_nodes_that_an_autoscaler_or_a_schedule_added_are_not_set_back_unasked(
    kind: str, running: int | None, before: int, after: int, cost: str, refused: bool
) -> None:
    """Fewer nodes in the file are what somebody asks for. Others stop only if the group is named."""
    account: Any = Clients(running)
    (found,) = with_live_nodes([resized(kind, before, after)], account, "p")
    assert cost_of(found) == cost
    assert is_protected(found, (), {}) is refused


def test_a_group_that_keeps_its_nodes_is_not_counted() -> None:
    account: Any = None
    created = ResourceDiff(Id("s", "G"), "AWS::EKS::Nodegroup", Action.CREATED)
    assert with_live_nodes([created], account, "p") == [created]
