"""The training command, where each rank writes down what it has open before it leaves its process groups.

torchrun … -m tests.training.counted_train --config JOB.yaml

The environment variable COUNTS is a directory. Each rank writes `RANK.json` into it: the sockets it opened, its
threads, and its proportional share of memory in MB.
"""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import torch.distributed as dist

from tests.training.connections import sockets

# A rank that is a fork of its agent has the agent's connections with all other agents. One that is a program has none.
INHERITED = sockets()


def main() -> None:
    """Train, and count before the groups are destroyed."""
    train: Any = importlib.import_module("training.train")
    groups: Any = dist
    destroy = groups.destroy_process_group

    def count_and_destroy() -> None:
        counted = {
            "sockets": sockets() - INHERITED,
            "threads": len(list(Path("/proc/self/task").iterdir())),
            "megabytes": proportional_megabytes(),
        }
        (Path(os.environ["COUNTS"]) / f"{dist.get_rank()}.json").write_text(json.dumps(counted))
        destroy()

    groups.destroy_process_group = count_and_destroy
    train.main()


def proportional_megabytes() -> float:
    """Return the memory of this process, where a page that n processes share counts as an n-th of a page."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    (kilobytes,) = [int(line.split()[1]) for line in lines if line.startswith("Pss:")]
    return kilobytes / 1000


if __name__ == "__main__":
    main()
