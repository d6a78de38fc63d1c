"""Count the running nodes of a group. An autoscaler or a schedule sets the count, and no template has it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trainway.diff.account import AwsAccount
from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.costs import is_resized, is_rolled
from trainway.diff.instance_groups import KIND
from trainway.diff.names import NODE_LABEL, printed_name

NODEGROUP = "AWS::EKS::Nodegroup"


def with_live_nodes(diffs: Sequence[ResourceDiff], account: AwsAccount, platform: str) -> list[ResourceDiff]:
    """Return the diffs with the number of nodes that run in each group whose nodes a deploy may stop.

    A group has no such number where AWS does not tell.
    """
    asked = {each.id for each in diffs if _may_stop_nodes(each)}
    kinds = {each.kind for each in diffs if each.id in asked}
    counts = {kind: found for kind in kinds if (found := _counts(account, kind, platform)) is not None}
    return [
        replace(each, running=counts[each.kind].get(printed_name(each, platform), 0))
        if each.id in asked and each.kind in counts
        else each
        for each in diffs
    ]


def _may_stop_nodes(each: ResourceDiff) -> bool:
    if each.kind not in (NODEGROUP, KIND) or each.action is Action.CREATED:
        return False
    return each.is_lost or is_rolled(each) or is_resized(each)


def _counts(account: AwsAccount, kind: str, platform: str) -> Mapping[str, int] | None:
    """Return the nodes by the name of their group, or None if the caller may not ask or the cluster is not there."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        return _of_eks(account.client("eks"), platform) if kind == NODEGROUP else _of_hyperpod(account, platform)
    except (BotoCoreError, ClientError):
        return None


def _of_eks(eks: Any, cluster: str) -> Mapping[str, int]:
    counts: Counter[str] = Counter()
    for page in eks.get_paginator("list_nodegroups").paginate(clusterName=cluster):
        for name in page["nodegroups"]:
            group = eks.describe_nodegroup(clusterName=cluster, nodegroupName=name)["nodegroup"]
            label = group.get("labels", {}).get(NODE_LABEL, name)
            counts[label] += group.get("scalingConfig", {}).get("desiredSize", 0)
    return counts


def _of_hyperpod(account: AwsAccount, cluster: str) -> Mapping[str, int]:
    pages = account.client("sagemaker").get_paginator("list_cluster_nodes").paginate(ClusterName=cluster)
    return Counter(node["InstanceGroupName"] for page in pages for node in page["ClusterNodeSummaries"])
