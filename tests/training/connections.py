"""Ranks connect as those of a job do, and count their sockets, or lose one of them.

torchrun --nproc-per-node N connections.py count|lose

With `count`, rank 1 prints how many sockets it has after a barrier of all ranks and one of a second group. With `lose`,
the last rank ends after it has joined the second group. The others then fail in a barrier of it, and print `noticed`.
"""

import os
import sys
import time
from pathlib import Path

import torch.distributed as dist

from training.parallel.world import connect, host_group, meet, this_process


def main() -> None:
    """Connect, and do what the argument says."""
    process = this_process()
    connect(process, meet())
    group = host_group()
    if sys.argv[1] == "lose":
        time.sleep(1)  # the others have left the functions above
        if process.rank == process.world_size - 1:
            os._exit(0)
        time.sleep(1)  # its connections are closed
        try:
            dist.barrier(group)
        except RuntimeError:
            print("noticed", flush=True)
        os._exit(0)
    for each in (None, group):
        dist.barrier(each)
    if process.rank == 1:
        print("sockets", sockets(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def sockets() -> int:
    """Return the number of sockets that this process has open."""
    return sum(is_socket(descriptor) for descriptor in Path("/proc/self/fd").iterdir())


def is_socket(descriptor: Path) -> bool:
    """Return whether a descriptor of this process is a socket, and still open."""
    try:
        return descriptor.readlink().name.startswith("socket:")
    except FileNotFoundError:
        return False


if __name__ == "__main__":
    main()
