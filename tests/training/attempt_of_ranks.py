"""A rank that connects with the others as those of a job do, says so, and then ends as a killed one does.

python attempt_of_ranks.py DELAY

DELAY is the number of seconds for which the rank waits before it asks for the store of the rendezvous.
"""

import os
import sys
import time

import torch
import torch.distributed as dist

from training.parallel.world import connect, meet, this_process


def main() -> None:
    """Connect, reduce a number over all ranks, and end without closing anything."""
    time.sleep(float(sys.argv[1]))
    process = this_process("cpu")
    connect(process, meet())
    number = torch.tensor(process.rank + 1)
    dist.all_reduce(number)
    print(f"rank {process.rank} of {process.world_size} has {number}", flush=True)
    store = dist.distributed_c10d._get_default_store()
    store.set(f"read/{process.rank}", "")
    for rank in range(process.world_size):
        store.get(f"read/{rank}")
    os._exit(9)


if __name__ == "__main__":
    main()
