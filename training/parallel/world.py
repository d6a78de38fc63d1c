"""The rank of this process, and the ranks it communicates with."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore, Store  # the public names are not declared as exported
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.rendezvous import rendezvous

from training.config import Layout
from training.errors import UserError
from training.parallel.attempt import store_of_attempt
from training.parallel.device import device_of_rank
from training.parallel.expert import expert_mesh
from training.parallel.mesh import context_group, make_mesh

# How long rank 0 waits for the port of the store, which another process may have taken since torchrun chose it.
SECONDS_FOR_THE_PORT = 10


class Process(NamedTuple):
    """One process of a job, before it has joined the others."""

    rank: int
    world_size: int
    device: torch.device


@dataclass(frozen=True)
class World:
    """The rank of this process in a job that all ranks have joined.

    `mesh` holds all ranks as [pp, dp_replicate, fsdp, tp]. `context` is the group of ranks that share this rank's
    sequences, or None without context parallelism. `experts` holds all ranks as the experts' weights are divided over
    them, or None without expert parallelism.
    """

    rank: int
    size: int
    device: torch.device
    layout: Layout
    mesh: DeviceMesh
    context: dist.ProcessGroup | None
    experts: DeviceMesh | None

    @property
    def data_rank(self) -> int:
        """Return which of the `layout.dp` shares of a batch this rank processes."""
        shard = self.mesh.get_local_rank("fsdp") // self.layout.cp
        return self.mesh.get_local_rank("dp_replicate") * self.layout.dp_shard + shard


def this_process(device: Literal["accelerator", "cpu"] = "accelerator") -> Process:
    """Return rank, world size, and device of this process, as torchrun tells them in the environment.

    `device` is that of the job file.

    Raises:
        UserError: torchrun did not start this process, or the node has fewer usable GPUs than it should have.
    """
    try:
        rank, world_size, local_rank = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    except KeyError as error:
        raise UserError(f"{error.args[0]} is not in the environment: start the job with torchrun") from error
    return Process(rank, world_size, device_of_rank(device, local_rank))


def meet(awaits: Callable[[str], None] = lambda _: None) -> Store:
    """Return the store that the ranks of this attempt share. It is in rank 0 or in a torchrun agent.

    `awaits` is told for whom this rank waits, whenever that changes.

    torchrun chooses a free port and releases it, and rank 0 listens on it after its imports, which take seconds. A
    connection of another process can have the port meanwhile, often for a moment only.

    Raises:
        torch.distributed.DistNetworkError: the store is not reachable, or its port is in use for SECONDS_FOR_THE_PORT.
        torch.distributed.DistStoreError: a rank has not come within the timeout of the store.
    """
    awaits(_no_store())
    end = time.monotonic() + SECONDS_FOR_THE_PORT
    while True:
        try:
            store: Store = next(rendezvous("env://"))[0]
        except dist.DistNetworkError as error:
            if "EADDRINUSE" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
            own = store_of_attempt(store, rank, ranks, awaits)
            awaits("all ranks have come, and do not connect with each other")
            return own


def _no_store() -> str:
    """Return what a rank says that reaches no store."""
    where = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
    said = f"nothing answers at {where}, where the store of the rendezvous should be"
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # An agent keeps the first address for ever (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py,
        # `_bootstrap_store_info`, of 2.13.0, read 2026-11-28).
        said += ". torchrun keeps this address when another host takes rank 0, unless every host sets "
        said += "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"
    return said


def connect(process: Process, store: Store) -> None:
    """Connect this rank with all others, over gloo and on GPUs also over NCCL. Every rank calls this after `meet`."""
    # gloo connects two ranks when they first communicate. It would otherwise connect each rank with all others, in
    # every group.
    # https://docs.pytorch.org/docs/stable/distributed.html#improving-initialization-time (read 2026-11-23)
    os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")
    backend = "cpu:gloo,cuda:nccl" if process.device.type == "cuda" else "gloo"
    # PyTorch adds such a prefix to a store of its own, and none to this one.
    own = PrefixStore("groups", store)
    dist.init_process_group(backend, store=own, rank=process.rank, world_size=process.world_size)
    _connect_neighbors()


def host_group() -> dist.ProcessGroup:
    """Return another group of all ranks over gloo. Threads of their own can use it. Every rank calls this."""
    group: dist.ProcessGroup = dist.new_group(backend="gloo")
    _connect_neighbors(group)
    return group


def _connect_neighbors(group: dist.ProcessGroup | None = None) -> None:
    """Connect each rank over gloo with those at distances of 1, 2, 4, and so on, which most collectives use.

    A rank that first connects to one that has ended can wait for five times the group's timeout of 30 minutes. It
    notices at once that a connection has ended: https://github.com/pytorch/gloo/issues/520 (read 2026-11-23).
    """
    dist.barrier(group)


def join(layout: Layout, device: torch.device) -> World:
    """Make the groups that the layout needs. Every rank calls this, after `connect`."""
    return World(
        rank=dist.get_rank(),
        size=dist.get_world_size(),
        device=device,
        layout=layout,
        mesh=make_mesh(layout, device),
        context=context_group(layout, device) if layout.cp > 1 else None,
        experts=expert_mesh(layout, device) if layout.ep > 1 else None,
    )
