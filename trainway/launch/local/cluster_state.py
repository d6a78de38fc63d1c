"""This machine as a node, with the GPUs that NVIDIA's nvidia-smi lists."""

from __future__ import annotations

import os
import statistics
import subprocess

from trainway.launch.target.cluster_state import ClusterNode

# https://docs.nvidia.com/deploy/nvidia-smi/index.html (read 2026-11-26)
_QUESTION = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


def this_machine() -> ClusterNode:
    """Return this machine with its GPUs and their mean utilization. Both are None if nvidia-smi is missing or fails.

    `allocated` is None, because no scheduler allocates the GPUs of this machine.
    """
    name = os.uname().nodename
    try:
        ran = subprocess.run(_QUESTION, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ClusterNode(name, "this machine")
    lines = ran.stdout.split("\n")[:-1] if ran.returncode == 0 else []
    # nvidia-smi prints [N/A] for a partitioned GPU.
    used = [float(line) for line in lines if line.strip().isdigit()]
    return ClusterNode(
        name,
        "this machine",
        gpus=len(lines) if ran.returncode == 0 else None,
        used=statistics.fmean(used) / 100 if used else None,
    )
