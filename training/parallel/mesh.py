"""Arrange all ranks in one DeviceMesh, and in the groups that divide them in other ways."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from training.config import Layout


def make_mesh(layout: Layout, device: torch.device) -> DeviceMesh:
    """Return the mesh of all ranks: [pp, dp_replicate, fsdp, tp].

    Neighbors communicate most. The ranks of a matrix product are next to each other, then those that share weights, so
    that both stay inside a node if they fit. The weights are sharded over `fsdp`, dp_shard x cp ranks, because a part
    of the sequence affects the weights like a part of the batch.
    """
    sizes = (layout.pp, layout.dp_replicate, layout.dp_shard * layout.cp, layout.tp)
    return init_device_mesh(device.type, sizes, mesh_dim_names=("pp", "dp_replicate", "fsdp", "tp"))


def context_group(layout: Layout, device: torch.device) -> dist.ProcessGroup:
    """Return the group of ranks that share this rank's sequences: cp neighbors of its `fsdp` dimension."""
    # Create a second mesh of the same ranks, because slicing a flattened dimension is deprecated.
    sizes = (layout.pp, layout.dp_replicate, layout.dp_shard, layout.cp, layout.tp)
    names = ("pp", "dp_replicate", "dp_shard", "cp", "tp")
    return init_device_mesh(device.type, sizes, mesh_dim_names=names).get_group("cp")
