"""Measure what the agreement on a stop costs in each step, compared with an all-reduce of all ranks over gloo.

    python -m benchmarks.stop_agreement

All ranks are processes of this machine, and do nothing else. They agree through a TCPStore of a further process, as
after torchrun's rendezvous, and by the all-reduce, in turns of 100 steps (see turns.py). Ranks that agree through the
store do not wait for each other. The figure is the time of the slowest rank in each turn. With more ranks than cores,
it is the time that these cores need for all ranks and for the store, which answers one rank after the other.
"""

import multiprocessing
import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from multiprocessing.queues import Queue
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store, TCPStore  # the public names are not declared as exported

from benchmarks.record import arguments, record
from benchmarks.turns import Spread, ratios, take_turns
from training.hosts.stopping import StopSignal

RANKS, TURNS, STEPS = (1, 8, 32), 10, 100
WAYS = ("store", "all-reduce")


def main() -> None:
    """Measure the microseconds of both ways, and the ratio of their medians, for each number of ranks."""
    chosen = arguments("stop_agreement", __doc__).parse_args()
    torch.set_num_threads(1)
    found = {str(ranks): microseconds(ranks) for ranks in RANKS}
    result: dict[str, Any] = {
        "microseconds_of_a_step": {
            ranks: {way: Spread.of(of_way).document() for way, of_way in each.items()} for ranks, each in found.items()
        },
        "store_over_all_reduce": {
            ranks: ratios(each["store"], each["all-reduce"]).document() for ranks, each in found.items()
        },
        "steps_of_a_turn": STEPS,
    }
    record(result, ["torch"], chosen.out)


def microseconds(ranks: int) -> dict[str, list[float]]:
    """Return the time of a step by both ways, of the slowest rank in each turn."""
    processes = multiprocessing.get_context("fork")
    port: Queue[int] = processes.Queue()
    times: Queue[dict[str, list[float]]] = processes.Queue()
    # A fork of a process that has a store's thread would hang.
    host = processes.Process(target=partial(serve, port), daemon=True)
    host.start()
    number = port.get()
    started = [processes.Process(target=partial(measure, rank, ranks, number, times)) for rank in range(ranks)]
    for each in started:
        each.start()
    measured = [times.get() for _ in started]
    for each in started:
        each.join()
    host.terminate()
    return {way: [max(turn) for turn in zip(*(each[way] for each in measured), strict=True)] for way in WAYS}


def serve(port: "Queue[int]") -> None:
    """Host the store until this process is ended."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    port.put(store.port)
    time.sleep(3600)


def measure(rank: int, ranks: int, port: int, times: "Queue[dict[str, list[float]]]") -> None:
    """Take the turns of one rank, and put the microseconds of a step in each turn into the queue."""
    os.environ["TORCH_GLOO_LAZY_INIT"] = "1"
    store: Store = TCPStore("127.0.0.1", port, wait_for_workers=False, timeout=timedelta(seconds=300))
    dist.init_process_group("gloo", store=PrefixStore("groups", store), rank=rank, world_size=ranks)
    stop = StopSignal()
    stop.share(store)

    def turn(step: Callable[[], object]) -> float:
        dist.barrier()
        began = time.perf_counter()
        for _ in range(STEPS):
            step()
        return 1e6 * (time.perf_counter() - began) / STEPS

    ways = {"store": stop.reached_any_rank, "all-reduce": lambda: dist.all_reduce(torch.zeros(()))}
    times.put(take_turns({way: partial(turn, ways[way]) for way in WAYS}, TURNS))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
