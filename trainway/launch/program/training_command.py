"""The one command that every target runs, and torchrun's options as environment variables.

A target differs from another in where the job file is, in how many processes there are and in how they find each
other. None of that is part of the command. The job looks for its file where TRAINWAY_JOB says, and torchrun reads each
of its options from the environment as well, `--nnodes` from PET_NNODES (torch/distributed/argparse_util.py of PyTorch
2.11 to 2.13). So a job that runs on a laptop is started on a thousand nodes by the very same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

RENDEZVOUS_PORT = 29500
"""torchrun's own default (torch/distributed/run.py)."""


def training_command(until_step: int | None = None) -> tuple[str, ...]:
    """Return the command that starts the processes of a node."""
    until = () if until_step is None else (f"--until-step={until_step}",)
    return ("torchrun", "-m", "training.train", *until)


def one_node(processes: int, *, max_restarts: int) -> dict[str, str]:
    """Return the torchrun options, as environment variables, for processes on one machine.

    When a process dies, torchrun restarts all of them, up to `max_restarts` times.
    """
    return {"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": str(processes), "PET_MAX_RESTARTS": str(max_restarts)}


def many_nodes(nodes: int | str, processes: int, *, endpoint: str, run: str, max_restarts: int) -> dict[str, str]:
    """Return the torchrun options, as environment variables, for nodes that rendezvous at `endpoint`, a host:port.

    `nodes` is their number, or `least:most` if the job can continue with fewer. `run` keeps two jobs at one endpoint
    apart. When a worker dies, torchrun restarts the workers of all nodes, up to `max_restarts` times.
    """
    return {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(processes),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": run,
        # A busy node answers late: with less than this, nodes leave a rendezvous that they are part of.
        "PET_RDZV_CONF": "read_timeout=60",
        "PET_MAX_RESTARTS": str(max_restarts),
    }


def logging_to(directory: PurePath, *, shown_ranks: str | None = None) -> dict[str, str]:
    """Return the torchrun options for one log file per rank in `directory`. All ranks, or `shown_ranks`, also print."""
    shown: Mapping[str, str] = {} if shown_ranks is None else {"PET_LOCAL_RANKS_FILTER": shown_ranks}
    # 3 is both stdout and stderr.
    return {"PET_LOG_DIR": str(directory), "PET_REDIRECTS": "3", "PET_TEE": "3", **shown}
