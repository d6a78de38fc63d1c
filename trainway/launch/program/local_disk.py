"""The local disks of the nodes of a run, on which the training job keeps checkpoints with `checkpoint.local_disk`."""

from __future__ import annotations

from pathlib import PurePosixPath

from trainway.launch.program.allocation import Allocation
from trainway.launch.program.program import Program
from trainway.spec.sections.orchestrator import Orchestrator

VARIABLE = "TRAINWAY_LOCAL_DISK"
"""Environment variable with a directory on the disk. training/checkpoint/node_directory.py reads it."""
ON_THIS_MACHINE = PurePosixPath("/var/tmp")
IN_POD = PurePosixPath("/mnt/local-disk")
# lifecycle_scripts/local_disks.sh creates it on nodes whose disks it mounts, for the files of all users.
ON_SLURM = PurePosixPath("/opt/dlami/nvme/jobs")


def local_disk(program: Program, allocation: Allocation, orchestrator: str) -> PurePosixPath | None:
    """Return the directory on the disk of each node; None if the program uses none, or the nodes have none."""
    if not program.local_disk or why_none(allocation, orchestrator):
        return None
    return IN_POD if Orchestrator(orchestrator).is_kubernetes else ON_SLURM


def why_none(allocation: Allocation, orchestrator: str) -> str | None:
    """Return why a job has no local disk on the nodes of an allocation, or None if it has one."""
    if allocation.types_without_disk:
        return f"no NVMe instance storage is in {' and '.join(allocation.types_without_disk)}"
    if orchestrator == Orchestrator.HYPERPOD_EKS:
        # lifecycle_scripts/containers/place.sh has the reason. A path of the node is closed to pods of teams.
        return "the kubelet of HyperPod's nodes keeps the files of pods on another volume"
    return None


def warning(program: Program, allocation: Allocation, orchestrator: str, *, on_nodes: bool) -> str | None:
    """Return the warning that the nodes of a run have no local disk, or None if they need none.

    `on_nodes` says whether the run is on nodes of the platform, and not a training job of SageMaker.
    """
    if not program.local_disk:
        return None
    why = (
        why_none(allocation, orchestrator) if on_nodes else "a training job of SageMaker leaves its disks when it ends"
    )
    if why is None:
        return None
    return (
        f"warning: {program.name} keeps no checkpoints on local disks: {why}: leave checkpoint.local_disk out to keep "
        "them in memory, or launch on nodes with local disks"
    )
