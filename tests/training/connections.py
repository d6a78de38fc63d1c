"""Ranks connect as those of a job do, and count their sockets, or lose one of them.

torchrun --nproc-per-node N connections.py count|lose

With `count`, rank 1 prints how many sockets it has after a barrier of all ranks and one of a second group. With `lose`,
the last rank ends after it has joined the second group. The others then fail in a barrier of it, and print `noticed`.
"""

import contextlib
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
        before = sockets()
        # Each rank says that it has left the functions above.
        store = dist.distributed_c10d._get_default_store()
        store.set(f"left/{process.rank}", str(os.getpid()))
        left = [int(store.get(f"left/{rank}")) for rank in range(process.world_size)]
        store.set(f"read/{process.rank}", "")
        if process.rank == 0:
            # The store ends with this rank, so the others must have read it before.
            for rank in range(process.world_size):
                store.get(f"read/{rank}")
        if process.rank == process.world_size - 1:
            os._exit(0)
        # The kernel has closed the connections of a process that has ended.
        while not has_ended(left[-1]):
            time.sleep(0.01)
        # A message that gloo sends while its thread closes the connection can wait for ever, as the watchdog of a job
        # then notices. Each group has one connection, and rank 0 has that of the store as well.
        lost = 2 + (process.rank == 0) if is_neighbor(process.rank, process.world_size - 1, process.world_size) else 0
        while sockets() > before - lost:
            time.sleep(0.01)
        try:
            dist.barrier(group)
        except RuntimeError:
            print("noticed", flush=True)
        # Some ranks wait in the barrier for a message of one that has noticed, and notice when that one ends. What gloo
        # sends meanwhile can wait for ever, too. So rank 0, a neighbor of the lost one, ends when the others have sent
        # all of theirs. It keeps the store.
        if process.rank == 0:
            wait_until_asleep(left[1:-1])
        else:
            with contextlib.suppress(RuntimeError):
                store.get("never set")
        os._exit(0)
    for each in (None, group):
        dist.barrier(each)
    if process.rank == 1:
        print("sockets", sockets(), flush=True)
    dist.barrier()
    dist.destroy_process_group()


def is_neighbor(rank: int, other: int, ranks: int) -> bool:
    """Return whether a barrier connects two ranks: those at distances of 1, 2, 4, and so on."""
    distances = [2**power for power in range(ranks.bit_length()) if 2**power < ranks]
    return (other - rank) % ranks in distances or (rank - other) % ranks in distances


def has_ended(pid: int) -> bool:
    """Return whether a process of this machine has ended. Its parent may not have asked for its status yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def wait_until_asleep(pids: list[int]) -> None:
    """Wait until the main threads of some processes have not run between two looks: they wait for other ranks."""
    before: list[str] = []
    while (now := [main_thread(pid) for pid in pids]) != before or any("State:\tR" in each for each in now):
        before = now
        time.sleep(0.2)


def main_thread(pid: int) -> str:
    """Return the state of the main thread of a process, and how often it has run. Empty after its end."""
    try:
        lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
    except OSError:
        return ""
    return "\n".join(line for line in lines if line.startswith("State:") or "ctxt_switches" in line)


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
