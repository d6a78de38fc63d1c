"""Calculate the cost of a change: stopped nodes, lost data, and what is billed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from trainway.diff.compare import Action, ResourceDiff
from trainway.diff.instance_groups import KIND, UPDATED
from trainway.spec.storage.file_system_price import monthly_price

# Properties of a managed node group of which a new value replaces its nodes, one after the other. The operation is
# UpdateNodegroupVersion, and others belong to UpdateNodegroupConfig (EKS API reference).
ROLLING: Final = ("LaunchTemplate", "ReleaseVersion", "Version")
# Properties of a node group that an update sets together with the number of its nodes, whichever of them changed.
SIZES: Final = ("InstanceCount", "ScalingConfig")
DATA: Final = {
    "AWS::APS::Workspace": "its metrics",
    "AWS::ECR::Repository": "its images",
    "AWS::FSx::FileSystem": "its files, except those that are in S3",
    "AWS::KMS::Key": "whatever is encrypted with it, after the key's waiting period",
    "AWS::Logs::LogGroup": "its log lines",
    "AWS::S3::Bucket": "its objects",
}


def nodes_of(resource: Mapping[str, Any]) -> int | None:
    """Return how many nodes a node group's definition asks for; None if it does not say, or is none."""
    properties = resource.get("Properties", {})
    if resource.get("Type") == KIND:
        return int(properties.get("InstanceCount", 0))
    if resource.get("Type") == "AWS::EKS::Nodegroup":
        desired = properties.get("ScalingConfig", {}).get("DesiredSize")
        return int(desired) if desired is not None else None
    return None


def nodes_now(each: ResourceDiff) -> int | None:
    """Return how many nodes a node group has before the deploy: those that run, or those that were deployed."""
    return nodes_of(each.before) if each.running is None else each.running


def nodes_stopped(each: ResourceDiff) -> int:
    """Return how many nodes a change of a group's size stops."""
    if not is_resized(each):
        return 0
    return max((nodes_now(each) or 0) - (nodes_of(each.after) or 0), 0)


def nodes_stopped_unasked(each: ResourceDiff) -> int:
    """Return how many nodes a change of a group's size stops beyond those that the file takes away.

    The template's number of nodes is the one of the last deploy. An autoscaler, a schedule, or somebody has changed it
    since, and the update sets it again.
    """
    taken = max((nodes_of(each.before) or 0) - (nodes_of(each.after) or 0), 0)
    return max(nodes_stopped(each) - taken, 0)


def cost_of(each: ResourceDiff, region: str = "") -> str:
    """Return what one change costs in words, or an empty text if it costs nothing that is running or stored.

    Prices are those of the Region.
    """
    before = nodes_now(each)
    if each.is_lost and before:
        return _stop(before)
    if each.is_lost and each.kind in DATA:
        if not each.kept:
            return f"you lose {DATA[each.kind]}"
        empty = ", and jobs get a new one, which is empty" if each.action is Action.REPLACED else ""
        return f"it is kept, outside of the stack{empty}"
    if each.kind == "AWS::FSx::FileSystem" and (billed := _billed(each, region)):
        return billed
    if each.action is not Action.CHANGED:
        return ""
    parts = []
    if each.kind == KIND and (untold := sorted({edit.path[0] for edit in each.edits} - UPDATED)):
        parts.append(
            f"AWS does not say what an update of {', '.join(untold)} does: it may be refused, or change new nodes only"
        )
    if is_rolled(each) and before:
        whose = "its node is" if before == 1 else f"its {before} nodes are"
        causes = ", ".join(sorted({edit.path[0] for edit in each.edits} & set(ROLLING)))
        parts.append(f"{whose} replaced, one after the other, and jobs on {_them(before)} stop ({causes})")
    after = nodes_of(each.after)
    if is_resized(each) and before is not None and after is not None:
        if stopped := nodes_stopped(each):
            parts.append(f"from {before} running {'node' if before == 1 else 'nodes'} to {after}: {_stop(stopped)}")
        elif after > before:
            parts.append(f"{_nodes(after - before)} more")
    return "; ".join(parts)


def _billed(each: ResourceDiff, region: str) -> str:
    """Return what a Lustre file system costs that is created, or that stays beside another one."""
    properties = each.after.get("Properties", {})
    lustre = properties.get("LustreConfiguration")
    if not lustre:
        return ""
    price = monthly_price(region, properties.get("StorageCapacity"), lustre.get("PerUnitStorageThroughput"))
    if each.action is Action.CREATED:
        return price
    is_former = any(str(tag.get("Value", "")).endswith("/storage.former_lustre") for tag in properties.get("Tags", ()))
    return f"it stays, and you pay for it until you remove storage.former_lustre: {price}" if is_former else ""


def is_resized(each: ResourceDiff) -> bool:
    """Return whether a change in place sets the number of a node group's nodes, be it to the same number."""
    return each.action is Action.CHANGED and any(edit.path[0] in SIZES for edit in each.edits)


def is_rolled(each: ResourceDiff) -> bool:
    """Return whether a change in place replaces the nodes of a managed node group."""
    changed = {edit.path[0] for edit in each.edits}
    return each.kind == "AWS::EKS::Nodegroup" and each.action is Action.CHANGED and bool(changed & set(ROLLING))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"


def _them(count: int) -> str:
    return "it" if count == 1 else "them"


def _stop(count: int) -> str:
    return f"{_nodes(count)} {'stops' if count == 1 else 'stop'}, and the jobs on {_them(count)}"
