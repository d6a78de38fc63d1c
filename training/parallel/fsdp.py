"""Data parallelism: FSDP2, HSDP where the weights are also replicated, and DDP as HSDP whose groups are one rank.

Gradients are averaged over the mesh, layer by layer, while the backward pass goes on.
"""

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from training.experts import Experts
from training.model import Decoder

COMPUTE_TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def sharding_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The part of the job's mesh that weights are sharded and replicated over."""
    return mesh["fsdp"] if mesh["dp_replicate"].size() == 1 else mesh["dp_replicate", "fsdp"]


def shard(model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool = True) -> None:
    """Shards the parameters in place: one gather a layer, and one for the embedding, last norm and output.

    The last dimension of the mesh shards, the one before it replicates. The sharded weights, the gradients' reduction
    and the optimizer stay fp32 in every precision.
    """
    policy = _policy(precision)
    # What one rank has whole is not gathered, but it would be cast to the compute type once more.
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for layer in model.layers.values():
        fully_shard(layer, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard)
    # Embedding and output are needed again at the end of the forward and the beginning of the backward pass.
    fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def shard_experts(model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool) -> None:
    """Shards experts that are divided over other ranks already, each layer's in a gather of their own."""
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for module in list(model.modules()):
        if isinstance(module, Experts):
            fully_shard(module, mesh=mesh, mp_policy=_policy(precision), reshard_after_forward=reshard)


def _policy(precision: str) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(
        param_dtype=COMPUTE_TYPES[precision],
        reduce_dtype=torch.float32,
        # The rotary cache is a float argument of every layer and has to stay fp32.
        cast_forward_inputs=False,
    )
