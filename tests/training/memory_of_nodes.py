"""Four ranks on two nodes keep their state in memory, lose a node, and get it back on each other's nodes.

torchrun --nproc-per-node 4 memory_of_nodes.py DIRECTORY

Rank 0 prints `whole` where every rank has what it had.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor

from training.checkpoint import NodeMemory, Progress, Unreadable, state_of
from training.config import Optimizer
from training.config.presets import PRESETS
from training.model.decoder import Decoder, initialize
from training.optim.optimizer import make_optimizer
from training.parallel.fsdp import shard


def main() -> None:
    """Saves, loses and loads."""
    directory = Path(sys.argv[1])
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = Decoder(PRESETS["tiny"], 300)
    shard(model, init_device_mesh("cpu", (4,)), "fp32")
    initialize(model, seed=0)
    optimizer = make_optimizer(model, Optimizer())
    parts = [weight.to_local() for weight in model.state_dict().values() if isinstance(weight, DTensor)]

    memory = on_node(rank // 2, directory)
    assert memory.steps() == []
    for step in (2, 4, 6):
        with torch.no_grad():
            for part in parts:
                part.fill_(step + rank)
        memory.save(step, state_of(model, optimizer, Progress(step, 0, 0.0), {}))
    for node in ("node-0", "node-1"):
        kept = sorted(path.relative_to(path.parents[1]).as_posix()[:24] for path in (directory / node).rglob("rank-*"))
        assert kept == [f"step-0000000{step}/rank-0000{of}" for step in (4, 6) for of in range(4)], kept
    dist.barrier()

    if rank == 0:
        shutil.rmtree(directory / "node-0")
    dist.barrier()
    # The ranks come back in another order: those whose node is lost, and those that find their parts.
    memory = on_node(1 - rank // 2, directory)
    with unreadable(next((directory / "node-1").rglob("step-00000006/rank-00002.*")), rank):
        assert memory.steps() == [6, 4]
        try:
            memory.load(6, model, optimizer)
        except Unreadable as error:
            # The rank that would send the part finds out, and no rank waits for the part.
            assert "what there is of rank 2 is damaged" in str(error), error
        else:
            raise AssertionError("a part that cannot be read was loaded")
    assert memory.steps() == [6, 4]
    with torch.no_grad():
        for part in parts:
            part.zero_()
    assert memory.load(6, model, optimizer).step == 6
    memory.keep_only(6)
    whole = [all(bool((part == 6 + rank).all()) for part in parts)] * 4
    dist.all_gather_object(whole, whole[rank])
    assert memory.steps() == [6]
    memory.remove()
    dist.barrier()
    assert not list(directory.rglob("rank-*"))
    if rank == 0 and all(whole):
        print("whole", flush=True)
    dist.barrier()
    dist.destroy_process_group()


@contextmanager
def unreadable(part: Path, rank: int) -> Iterator[None]:
    """Put something that no process can read in the place of a part, as a broken disk does."""
    if rank == 0:
        part.rename(part.with_suffix(".aside"))
        part.mkdir()
    dist.barrier()
    yield
    dist.barrier()
    if rank == 0:
        part.rmdir()
        part.with_suffix(".aside").rename(part)
    dist.barrier()


def on_node(node: int, directory: Path) -> NodeMemory:
    """The memory of a rank on one of two nodes of two ranks."""
    os.environ |= {"LOCAL_WORLD_SIZE": "2", "TRAINWAY_MEMORY": str(directory / f"node-{node}")}
    return NodeMemory("checkpoints", {}, {"ranks": 4}, dist.new_group(backend="gloo"))


if __name__ == "__main__":
    main()
