"""A node group is refused for the nodes that run, whatever its template says."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.costs import cost_of
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


def test_a_group_that_keeps_its_nodes_is_not_counted() -> None:
    account: Any = None
    created = ResourceDiff(Id("s", "G"), "AWS::EKS::Nodegroup", Action.CREATED)
    assert with_live_nodes([created], account, "p") == [created]
