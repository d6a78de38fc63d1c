"""Which rank is where: one DeviceMesh over all ranks, and the groups that divide them in other ways."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from training.config import Layout


def make_mesh(layout: Layout, device: torch.device) -> DeviceMesh:
    """The mesh of all ranks: [pp, dp_replicate, fsdp, tp].

    Neighbors talk most: the ranks of a matrix product are next to each other, then those that share weights, so that
    both stay inside a node where they fit. The weights are sharded over `fsdp`, dp_shard x cp ranks, because to a
    weight a part of the sequence is like a part of the batch.
    """
    sizes = (layout.pp, layout.dp_replicate, layout.dp_shard * layout.cp, layout.tp)
    return init_device_mesh(device.type, sizes, mesh_dim_names=("pp", "dp_replicate", "fsdp", "tp"))


def context_group(layout: Layout, device: torch.device) -> dist.ProcessGroup:
    """The ranks that share this rank's sequences: cp neighbors of its `fsdp` dimension."""
    # Two divisions of the same ranks; slicing out a flattened dimension, the other way to this, is deprecated.
    sizes = (layout.pp, layout.dp_replicate, layout.dp_shard, layout.cp, layout.tp)
    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
    return init_device_mesh(device.type, sizes, mesh_dim_names=names).get_group("cp")
