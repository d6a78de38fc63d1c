"""Data parallelism: FSDP2 over one DeviceMesh, and HSDP where the weights are also replicated."""

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from training.config import Layout
from training.model import Decoder


def make_mesh(layout: Layout, device: torch.device) -> DeviceMesh:
    """The mesh of all ranks. Neighbouring ranks share weights, so that sharding stays inside a node where it fits."""
    if layout.dp_replicate == 1:
        return init_device_mesh(device.type, (layout.dp_shard,), mesh_dim_names=("dp_shard",))
    sizes, names = (layout.dp_replicate, layout.dp_shard), ("dp_replicate", "dp_shard")
    return init_device_mesh(device.type, sizes, mesh_dim_names=names)


def shard(model: Decoder, mesh: DeviceMesh, precision: str) -> None:
    """Shards the parameters in place: one gather a layer, and one for the embedding, last norm and output.

    The sharded weights, the gradients' reduction and the optimizer stay fp32 in every precision.
    """
    policy = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if precision == "bf16" else None,
        reduce_dtype=torch.float32,
        # The rotary cache is a float argument of every layer and has to stay fp32.
        cast_forward_inputs=False,
    )
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
