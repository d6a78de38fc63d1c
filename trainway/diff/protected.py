"""Protect resources that a deploy may replace or delete only by name, and offer alternatives."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.costs import nodes_now, nodes_stopped_unasked
from trainway.diff.create_only import Verdict
from trainway.diff.instance_groups import KIND
from trainway.diff.tokens import Id, references

FILE: Final = Path(__file__).with_name("instead.yaml")
# What puts network interfaces into a subnet.
IN_SUBNETS: Final = (
    "AWS::CodeBuild::Project",
    "AWS::EC2::NatGateway",
    "AWS::EC2::VPCEndpoint",
    "AWS::EKS::Cluster",
    "AWS::EKS::Nodegroup",
    "AWS::FSx::FileSystem",
    "AWS::SageMaker::Cluster",
    KIND,
)


def is_protected(each: ResourceDiff, users: Sequence[Id], all_diffs: Mapping[Id, ResourceDiff]) -> bool:
    """Return whether a deploy may do this only if the resource is named.

    `users` are the deployed resources in a subnet. A subnet whose users all leave with it is not in use.
    """
    if each.kind not in remedies():
        return False
    if not each.is_lost:
        return nodes_stopped_unasked(each) > 0
    if each.kind in ("AWS::EKS::Nodegroup", KIND):
        return nodes_now(each) != 0
    if each.kind == "AWS::EC2::Subnet":
        staying = [id for id in users if id not in all_diffs or all_diffs[id].action is not Action.DELETED]
        return bool(staying)
    return True


@functools.cache
def remedies() -> Mapping[str, Mapping[str, str]]:
    """Return the alternatives to a refused change, by resource type and top-level property, from instead.yaml.

    The property `any` is for all that have no entry, and for a deletion.
    """
    found: Mapping[str, Mapping[str, str]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def instead_of(each: ResourceDiff) -> str:
    """Return the alternative to a refused change, by the property that replaces or resizes the resource."""
    known = remedies()[each.kind]
    properties = [edit.path[0] for edit in each.edits if edit.verdict is not Verdict.UPDATE or not each.is_lost]
    return next(known[name] for name in (*properties, "any") if name in known)


def users_of(resources: Mapping[Id, Mapping[str, Any]]) -> dict[Id, list[Id]]:
    """Return the resources with network interfaces in each subnet, by the subnet's ID."""
    users: dict[Id, list[Id]] = {}
    for id, resource in resources.items():
        if resource["Type"] in IN_SUBNETS:
            for subnet, _ in references(resource["Properties"]):
                users.setdefault(subnet, []).append(id)
    return users
