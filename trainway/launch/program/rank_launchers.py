"""What starts the ranks of a node, torchrun or training.elastic, and its options as environment variables.

A target differs from another in where the job file is, in how many processes there are and in how they find each
other. None of that is part of the command of a node. The job looks for its file where TRAINWAY_JOB says. torchrun reads
each of its options from the environment as well, `--nnodes` from PET_NNODES (torch/distributed/argparse_util.py of
PyTorch 2.11 to 2.13), and so does `training.elastic`, which starts the ranks of Trainway's own job. So a job that runs
on a laptop is started on a thousand nodes by the very same words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

ELASTIC = ("python3", "-m", "training.elastic")
"""The words that start the ranks of the training job on a node: see training/elastic.py."""
ONCE_PER_GPU = ("torchrun", "--no-python")
"""The words that start any program once for each GPU of a node."""
RENDEZVOUS_PORT = 29500
"""torchrun's own default (torch/distributed/run.py)."""
# A shorter time would remove nodes that are only busy, or that a network fault cuts off for a moment.
_SECONDS_UNTIL_LOST = 8


def launches_ranks(command: Sequence[str]) -> bool:
    """Return whether the command of a node is torchrun or training.elastic."""
    return PurePath(command[0]).name == "torchrun" or tuple(command[: len(ELASTIC)]) == ELASTIC


def one_node(processes: int, *, max_restarts: int) -> dict[str, str]:
    """Return the options of the launcher of the ranks, as environment variables, for processes on one machine.

    When a process dies, the launcher restarts all of them, up to `max_restarts` times.
    """
    return {"PET_STANDALONE": "1", "PET_NPROC_PER_NODE": str(processes), "PET_MAX_RESTARTS": str(max_restarts)}


def many_nodes(nodes: int | str, processes: int, *, endpoint: str, run: str, max_restarts: int) -> dict[str, str]:
    """Return the options of the launcher of the ranks, as environment variables, for several nodes.

    They rendezvous at `endpoint`, a host:port. `nodes` is their number, or `least:most` if the job can continue with
    fewer. `run` keeps two jobs at one endpoint apart. When a rank dies, the ranks of all nodes are restarted, up to
    `max_restarts` times.
    """
    return {
        "PET_NNODES": str(nodes),
        "PET_NPROC_PER_NODE": str(processes),
        "PET_RDZV_BACKEND": "c10d",
        "PET_RDZV_ENDPOINT": endpoint,
        "PET_RDZV_ID": run,
        # A busy node answers late: with less than this, nodes leave a rendezvous that they are part of.
        "PET_RDZV_CONF": f"read_timeout=60,{_keep_alive(_most(nodes))}",
        "PET_MAX_RESTARTS": str(max_restarts),
    }


def logging_to(directory: PurePath, *, shown_ranks: str | None = None, prints: bool = True) -> dict[str, str]:
    """Return the options of the launcher of the ranks for one log file per rank in `directory`.

    All ranks, or `shown_ranks`, also print, unless `prints` is false.
    """
    shown: Mapping[str, str] = {} if shown_ranks is None else {"PET_LOCAL_RANKS_FILTER": shown_ranks}
    # 3 is both stdout and stderr, and 0 is neither.
    return {"PET_LOG_DIR": str(directory), "PET_REDIRECTS": "3", "PET_TEE": "3" if prints else "0", **shown}


def _most(nodes: int | str) -> int:
    """Return the most nodes of the option `--nnodes`, which is a number or `least:most`."""
    return int(str(nodes).rpartition(":")[2])


def _keep_alive(nodes: int) -> str:
    """Return the keep-alive settings of the rendezvous, as a part of PET_RDZV_CONF.

    The rendezvous removes a lost node when its keep-alive is late by `interval` times `attempts`. The defaults of
    PyTorch 2.13 are 5 seconds and 3 (`create_handler` in torch/distributed/elastic/rendezvous/dynamic_rendezvous.py).
    Every keep-alive writes the state of the whole rendezvous, so the interval grows with the number of nodes. With up
    to 1,000 nodes, the rate of writes is at most that of 1,000 nodes with the default interval.
    """
    interval = min(5, -(-nodes // 200))
    attempts = max(3, -(-_SECONDS_UNTIL_LOST // interval))
    return f"keep_alive_interval={interval},keep_alive_max_attempt={attempts}"
