"""Choose what SageMaker HyperPod should do about nodes that failed a check.

https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StartClusterHealthCheck.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchRebootClusterNodes.html,
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_BatchReplaceClusterNodes.html, and
https://docs.aws.amazon.com/sagemaker/latest/dg/sagemaker-hyperpod-resiliency-slurm-deep-health-checks.html (read
2026-11-26)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainway.spec.errors import usage_error
from trainway.spec.platform import Platform
from trainway.verify.rates_program import COLLECTIVES
from trainway.verify.results import Result, Status


class Repair(StrEnum):
    """An operation of HyperPod that repairs a node."""

    CHECK = "check"
    """Test the hardware of the node while it takes no jobs. With node recovery, HyperPod repairs a node that fails."""
    REBOOT = "reboot"
    """Restart the operating system. The node keeps its volumes."""
    REPLACE = "replace"
    """Terminate the instance and start another. Its volumes are deleted."""


CONSEQUENCES: Mapping[Repair, str] = {
    Repair.CHECK: "takes no jobs until the check ends, and with `hyperpod.node_recovery` is repaired if it fails",
    Repair.REBOOT: "restarts, which ends the jobs on it",
    Repair.REPLACE: "is terminated with its volumes, which ends the jobs on it, and another node starts",
}

# A device that a node has lost may come back with a reboot. A deep health check counts GPUs, runs dcgmi's diagnostics,
# and sends over EFA.
_OF_A_NODE: Mapping[str, Repair] = {
    "allocatable": Repair.REBOOT,
    "efa devices": Repair.REBOOT,
    "gpus": Repair.REBOOT,
    "file system": Repair.REBOOT,
    "nccl": Repair.CHECK,
    "gpu health": Repair.CHECK,
    **dict.fromkeys(("gemm", "memory", "node all-reduce"), Repair.CHECK),
    **{f"pair {each}": Repair.CHECK for each in COLLECTIVES},
}
# If one of these checks fails on all nodes, the cause is the image, the network, or the file system.
_SHARED = ("efa devices", "file system", "nccl")
_OF_NO_NODE: Mapping[str, str] = {
    "nodes": "the node that did not answer is unknown: `trainway explain` says why the test did not run there",
    "locked memory": "the job sets the limit, so a new node has the same limit",
    "versions": "the versions come from the image, so a new node has the same versions",
    "all-reduce": "the bandwidth was measured across all nodes: `trainway verify --find-slow` finds a slow node",
    **{f"pair {each}": "both nodes of the link are fast with other nodes" for each in COLLECTIVES},
    "half all-reduce": "no node among them is slow, so the cause is the network between them",
    "clock": "run `chronyc tracking` on the node to find the reason",
    "probe": "the test itself failed, so its result does not show a fault of a node",
}
_UNKNOWN = "no repair is known for this check"


@dataclass(frozen=True)
class FaultyNode:
    """A node with the repair that it needs, and the failed checks that are the reason."""

    node: str
    repair: Repair
    failed: tuple[Result, ...]


@dataclass(frozen=True)
class NotRepaired:
    """A failed check, and the reason why no node is repaired for it."""

    result: Result
    why: str


def choose_repairs(
    results: Sequence[Result], always: Repair | None = None
) -> tuple[tuple[FaultyNode, ...], tuple[NotRepaired, ...]]:
    """Return one repair for each node with a fault of its own, and the failed checks for which no node is repaired.

    `always` replaces the repair that fits each failed check. A node with several faults gets a deep health check if one
    of the faults requires it, because HyperPod then reboots or replaces the node as the check finds necessary.
    """
    faults: dict[str, list[Result]] = {}
    others: list[NotRepaired] = []
    for each in results:
        if each.status is not Status.FAILED:
            continue
        if why := _why_not(each, results):
            others.append(NotRepaired(each, why))
        elif each.node is not None:
            faults.setdefault(each.node, []).append(each)
    repairs = tuple(FaultyNode(node, always or _strongest(failed), tuple(failed)) for node, failed in faults.items())
    return repairs, tuple(others)


def require_hyperpod(platform: Platform) -> None:
    """Raise UsageError for a platform that is not on HyperPod. Only HyperPod checks and replaces nodes on request."""
    if platform.orchestrator.is_hyperpod:
        return
    raise usage_error(
        f"--repair cannot be used on {platform.name}",
        why="its orchestrator is eks, and only HyperPod has operations that check, reboot, and replace nodes",
        fix="leave out --repair. EKS repairs the nodes that its monitoring agent finds unhealthy. To replace any other "
        "node, run `kubectl drain NODE --ignore-daemonsets --delete-emptydir-data`, and then "
        "`aws ec2 terminate-instances --instance-ids ID`. Its node group starts another instance",
    )


def _strongest(failed: Sequence[Result]) -> Repair:
    wanted = {_OF_A_NODE[each.check] for each in failed}
    return Repair.CHECK if Repair.CHECK in wanted else Repair.REBOOT


def _why_not(result: Result, results: Sequence[Result]) -> str | None:
    """Return why no node is repaired for a failed check, or None if its node is repaired."""
    if result.node is None or result.check not in _OF_A_NODE:
        return _OF_NO_NODE.get(result.check, _UNKNOWN)
    same = [each for each in results if each.check == result.check and each.node is not None]
    if result.check in _SHARED and len(same) > 1 and all(each.status is Status.FAILED for each in same):
        return f"all {len(same)} nodes fail, so the cause is the image, the network, or the file system, and no node"
    return None
