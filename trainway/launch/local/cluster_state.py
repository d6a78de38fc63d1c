"""This machine as a node: its GPUs, by NVIDIA's nvidia-smi."""

from __future__ import annotations

import os
import statistics
import subprocess

from trainway.launch.target.cluster_state import ClusterNode

# https://docs.nvidia.com/deploy/nvidia-smi/index.html (read 2026-11-26)
_QUESTION = ("nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits")


def this_machine() -> ClusterNode:
    """Return the GPUs of this machine and their mean utilization. Both are None without nvidia-smi.

    Nobody allocates GPUs here.
    """
    name = os.uname().nodename
    try:
        ran = subprocess.run(_QUESTION, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ClusterNode(name, "this machine")
    lines = ran.stdout.split("\n")[:-1] if ran.returncode == 0 else []
    # A GPU that is partitioned says [N/A].
    used = [float(line) for line in lines if line.strip().isdigit()]
    return ClusterNode(
        name,
        "this machine",
        gpus=len(lines) if ran.returncode == 0 else None,
        used=statistics.fmean(used) / 100 if used else None,
    )
