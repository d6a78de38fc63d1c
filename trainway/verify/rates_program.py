"""Measure the rates of nodes, and of the network between them. Every process of a job runs this program.

Like the probe, the program is sent as text, torchrun starts it, and it imports nothing of this project. Rank 0 prints
the results as lines of JSON, one for each round: a log cuts a line that is too long, and a job that hangs has told what
it measured until then. trainway/extensions/find_slow/rates.py reads the lines, and slow_nodes.py judges them.

Bandwidths between ranks are bus bandwidths, which are comparable for any number of ranks.
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md (read 2026-11-21)
"""

import importlib
import json
import os
import socket
import time
from typing import Any

MARK = "TRAINWAY-RATES "
MIB, GIB = 2**20, 2**30
COLLECTIVES = ("all-reduce", "all-gather", "all-to-all")


def main() -> None:
    """Measure the rates in a process group of all ranks."""
    torch: Any = importlib.import_module("torch")
    dist: Any = importlib.import_module("torch.distributed")

    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    # Without this, gloo connects each process with all others. The probe has the same setting.
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    dist.init_process_group("cpu:gloo,cuda:nccl" if on_gpu else "gloo")
    try:
        measure(torch, dist, device)
    finally:
        dist.destroy_process_group()


def measure(torch: Any, dist: Any, device: Any) -> None:
    """Measure each node, pairs of nodes, halves of the nodes, and all nodes. Print the rates of each round."""
    on_gpu, locals_ = device.type == "cuda", int(os.environ["LOCAL_WORLD_SIZE"])
    nodes, node = dist.get_world_size() // locals_, dist.get_rank() // locals_
    limit = torch.cuda.get_device_properties(device).total_memory // 8 if on_gpu else 64 * MIB
    # At least 4 bytes for each rank of a group.
    most = max(min(setting("MAX_BYTES", GIB), limit), 4 * dist.get_world_size())
    # Pairs are compared with each other, for which this size is enough. Published figures are of larger sizes.
    size = min(most, GIB)
    repeats = setting("REPEATS", 10 if on_gpu else 3)

    def measured(within: str, members: list[int], collectives: tuple[str, ...], size: int) -> list[Any]:
        """Return the rates of collectives among some nodes, or the empty list if this node is not one of them."""
        if node not in members:
            return []
        ranks = [each * locals_ + rank for each in members for rank in range(locals_)]
        # Only members create a group. PyTorch names it after its ranks and the number of groups of this process, so
        # each group is destroyed before the next one, and none has the ranks of an earlier one, whose keys are
        # still in the store (_process_group_name in torch/distributed/distributed_c10d.py of PyTorch 2.13).
        group = dist.group.WORLD if within == "cluster" else dist.new_group(ranks, use_local_synchronization=True)
        rates = [
            [f"{within} {name}", members, bandwidth(torch, dist, device, group, name, size, repeats)]
            for name in collectives
        ]
        dist.barrier(group)
        if within != "cluster":
            dist.destroy_process_group(group)
        return rates if dist.get_rank() == ranks[0] else []

    names: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(names, socket.gethostname())
    tell(dist, {"nodes": names[::locals_], "bytes": most})

    share(dist, rates_of_nodes(torch, dist, device))
    if locals_ > 1:
        share(dist, measured("node", [node], ("all-reduce",), size))
    # Over equal TCP links, the rates of gloo's all-gather and all-to-all differ by up to a factor of 2. Those of
    # its all-reduce differ by 5 %.
    between = COLLECTIVES if on_gpu else ("all-reduce",)
    for pairs in rounds(nodes, setting("PARTNERS", 5)):
        share(dist, measured("pair", next((each for each in pairs if node in each), []), between, size))
    for halves in splits(nodes):
        share(dist, measured("half", next(each for each in halves if node in each), ("all-reduce",), size))
    if nodes > 1:
        share(dist, measured("cluster", list(range(nodes)), COLLECTIVES, most))
    tell(dist, {"end": True})
    dist.barrier()


def rates_of_nodes(torch: Any, dist: Any, device: Any) -> list[Any]:
    """Return the rates of products of matrices and of memory of each node, on rank 0. Other ranks return none.

    The slowest process of a node counts, because a job waits for it.
    """
    own: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(own, (gemm(torch, device), memory(torch, device)))
    if dist.get_rank() != 0:
        return []
    locals_ = int(os.environ["LOCAL_WORLD_SIZE"])
    rates: list[Any] = []
    for node in range(dist.get_world_size() // locals_):
        products, copies = zip(*own[node * locals_ : (node + 1) * locals_], strict=True)
        rates += [["gemm", [node], min(products)], ["memory", [node], min(copies)]]
    return rates


def setting(name: str, default: int) -> int:
    """Return a setting of the environment, or the default if it is not set."""
    return int(os.environ.get(f"TRAINWAY_RATES_{name}") or default)


def tell(dist: Any, document: Any) -> None:
    """Print a document on rank 0, as one line with a mark that the lines of other processes do not have."""
    if dist.get_rank() == 0:
        print(MARK + json.dumps(document), flush=True)


def share(dist: Any, rates: Any) -> None:
    """Print the rates of all ranks. The call is a collective, so that all ranks end the round together."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, rates)
    tell(dist, {"rates": [[name, nodes, float(f"{rate:.6g}")] for some in every for name, nodes, rate in some]})


def rounds(nodes: int, partners: int) -> Any:
    """Return rounds of disjoint pairs, so that each node is paired with several others.

    The rounds are those of a round-robin tournament by the circle method: node 0 stays, and the others move on by one.
    With an odd number of nodes, another node rests in each round, and a round more lets each meet enough.
    """
    circle = list(range(nodes + nodes % 2))
    for _ in range(min(len(circle) - 1, partners + nodes % 2)):
        pairs = [sorted((circle[at], circle[-1 - at])) for at in range(len(circle) // 2)]
        yield [pair for pair in pairs if pair[1] < nodes]
        circle[1:] = [circle[-1], *circle[1:-1]]


def splits(nodes: int) -> Any:
    """Return splits into halves by each bit of a node's number. A slow node is in the slow half of each split.

    A half of two nodes would be a pair again.
    """
    for bit in range((nodes - 1).bit_length()):
        halves = [[node for node in range(nodes) if node >> bit & 1 == value] for value in (0, 1)]
        if all(len(half) > 2 for half in halves):
            yield halves


def gemm(torch: Any, device: Any) -> float:
    """Return the rate of products of matrices in TFLOP/s: in bf16 on a GPU, and in float32 on a CPU."""
    on_gpu = device.type == "cuda"
    size = setting("GEMM", 8192 if on_gpu else 512)
    left = torch.randn(size, size, device=device, dtype=torch.bfloat16 if on_gpu else torch.float32)
    result = torch.empty_like(left)
    return 2 * size**3 / sustained(torch, device, lambda: torch.mm(left, left, out=result)) / 1e12


def memory(torch: Any, device: Any) -> float:
    """Return the memory bandwidth in GB/s, as the sum of the bytes that a copy reads and writes."""
    size = setting("MEMORY_BYTES", GIB if device.type == "cuda" else 64 * MIB)
    source = torch.ones(size // 4, device=device)
    result = torch.empty_like(source)
    return 2 * size / sustained(torch, device, lambda: result.copy_(source)) / 1e9


def sustained(torch: Any, device: Any, call: Any) -> float:
    """Return the seconds of a call. On a GPU, it is the mean over some seconds, in which an overheated GPU slows down.

    On a CPU it is the shortest call, because other processes use the CPU, too.
    """
    on_gpu = device.type == "cuda"
    many, best = 20 if on_gpu else 1, float("inf")
    for _ in range(3):
        call()
    if on_gpu:
        torch.cuda.synchronize()
    began, calls = time.monotonic(), 0
    while calls < 5 * many or time.monotonic() < began + setting("MILLISECONDS", 3000 if on_gpu else 500) / 1000:
        start = time.monotonic()
        for _ in range(many):
            call()
        if on_gpu:
            torch.cuda.synchronize()
        calls += many
        best = min(best, time.monotonic() - start)
    return (time.monotonic() - began) / calls if on_gpu else best


def bandwidth(torch: Any, dist: Any, device: Any, group: Any, name: str, size: int, repeats: int) -> float:
    """Return the bus bandwidth in GB/s of a collective in a group. The slowest rank counts.

    On a GPU it is the mean of the calls, and on a CPU the best of them.
    """
    ranks = dist.get_world_size(group)
    part = size // 4 // ranks
    whole, other = torch.ones(part * ranks, device=device), torch.empty(part * ranks, device=device)
    # PyTorch 2.13 has renamed all_gather_into_tensor.
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    collective: tuple[Any, int] = {
        # The largest value of each, because the sum of many calls would become infinite.
        "all-reduce": (lambda: dist.all_reduce(whole, op=dist.ReduceOp.MAX, group=group), 2),
        "all-gather": (lambda: gather(other, whole[:part], group=group), 1),
        "all-to-all": (lambda: dist.all_to_all_single(other, whole, group=group), 1),
    }[name]
    call, factor = collective
    on_gpu = device.type == "cuda"
    many = repeats if on_gpu else 1
    seconds: list[float] = []
    for block in range(2 if on_gpu else 1 + repeats):
        dist.barrier(group)
        began = time.monotonic()
        for _ in range(many):
            call()
        if on_gpu:
            torch.cuda.synchronize()
        if block:  # the first block creates the connections
            seconds.append((time.monotonic() - began) / many)
    slowest = torch.tensor(seconds, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=group)
    best = float(slowest.min())
    return float(4 * part * (ranks - 1) * factor) / best / 1e9


if __name__ == "__main__":
    main()
