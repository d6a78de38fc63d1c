"""A program that starts once for each GPU: the command of its ranks, and the variables with the number of a rank.

As a program, between torchrun and the program of a rank:

    torchrun --no-python python3 once_per_gpu.py COMMAND

It requires Python 3.9 and nothing else.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

# With this option, torchrun starts any program once for each GPU, and not Python.
_ANY_PROGRAM = "--no-python"


def command_of_ranks(command: "list[str]") -> "list[str]":
    """Return the command of torchrun or HyperPod's agent whose ranks have the variables of a task of Slurm, too."""
    at = command.index(_ANY_PROGRAM) + 1
    return [*command[:at], sys.executable, str(Path(__file__).resolve()), *command[at:]]


def rendezvous(environment: "Mapping[str, str]", node_rank: int) -> "dict[str, str]":
    """Return the options of torchrun by which the ranks follow the numbers of the nodes.

    Programs that srun starts take the first host of the list of Slurm for that of rank 0. torchrun numbers nodes by
    their names otherwise, in which ip-10-0-1-17 comes before ip-10-0-1-9. A program that continues with fewer nodes
    needs this numbering.
    """
    if environment.get("PET_RDZV_BACKEND") != "c10d" or ":" in environment.get("PET_NNODES", ""):
        return {}
    return {"PET_RDZV_BACKEND": "static", "PET_NODE_RANK": str(node_rank)}


def task_variables(rank: "Mapping[str, str]") -> "dict[str, str]":
    """Return the variables of srun for a rank, by those of torchrun.

    https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES (read 2026-12-01)
    """
    ranks, on_node = int(rank["WORLD_SIZE"]), int(rank["LOCAL_WORLD_SIZE"])
    nodes = ranks // on_node
    tasks = str(on_node) if nodes == 1 else f"{on_node}(x{nodes})"
    of_step = {"NUM_NODES": str(nodes), "NUM_TASKS": str(ranks), "TASKS_PER_NODE": tasks}
    return {
        "SLURM_PROCID": rank["RANK"],
        "SLURM_LOCALID": rank["LOCAL_RANK"],
        "SLURM_NODEID": rank["GROUP_RANK"],
        "SLURM_NTASKS": str(ranks),
        "SLURM_NPROCS": str(ranks),
        "SLURM_NTASKS_PER_NODE": str(on_node),
        "SLURM_TASKS_PER_NODE": tasks,
        "SLURM_NNODES": str(nodes),
        "SLURM_JOB_NUM_NODES": str(nodes),
        **{f"SLURM_STEP_{name}": value for name, value in of_step.items()},
    }


if __name__ == "__main__":
    os.environ.update(task_variables(os.environ))
    try:
        os.execvp(sys.argv[1], sys.argv[1:])
    except OSError as problem:
        sys.exit(f"{sys.argv[1]} cannot start: {problem}")
