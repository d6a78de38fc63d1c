"""The number of a node among those of its run, and whether there are others."""

import os
import re


def node_rank() -> int:
    """Return the number of this node, from 0, by the environment that the target gives it."""
    names = ("TRAINWAY_NODE_RANK", "SLURM_NODEID", "JOB_COMPLETION_INDEX", "PET_NODE_RANK")
    told = (os.environ.get(name) for name in names)
    # Pods of a PyTorchJob and of a HyperPodPyTorchJob have no index but that of their name.
    of_worker = re.search(r"-(\d+)$", os.environ.get("POD_NAME", ""))
    return int(next((each for each in told if each), of_worker.group(1) if of_worker else "0"))


def has_other_nodes() -> bool:
    """Return whether the run has other nodes. One node with ranks can have spare nodes, which torchrun counts."""
    return {os.environ.get(name) or "1" for name in ("TRAINWAY_NODES", "PET_NNODES")} != {"1"}
