"""Data parallelism: FSDP2, HSDP where the weights are also replicated, and DDP as HSDP whose groups are one rank.

Gradients are averaged over the mesh, layer by layer, while the backward pass goes on.
"""

from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard

from training.model.decoder import Decoder
from training.model.experts import Experts

COMPUTE_TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def sharding_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """The part of the job's mesh that weights are sharded and replicated over."""
    return mesh["fsdp"] if mesh["dp_replicate"].size() == 1 else mesh["dp_replicate", "fsdp"]


def shard(
    model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool = True, offload: bool = False
) -> None:
    """Shards the parameters in place: one gather a layer, and one for the embedding, last norm and output.

    The last dimension of the mesh shards, the one before it replicates. The sharded weights, the gradients' reduction
    and the optimizer stay fp32 in every precision. With `offload` a rank's parts are in the host's memory.
    """
    options = _options(mesh, precision, offload)
    # What one rank has whole is not gathered, but it would be cast to the compute type once more.
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for layer in model.layers.values():
        fully_shard(layer, reshard_after_forward=reshard, **options)
    # Embedding and output are needed again at the end of the forward and the beginning of the backward pass.
    fully_shard(model, reshard_after_forward=False, **options)


def shard_experts(
    model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool, offload: bool = False
) -> None:
    """Shards experts that are divided over other ranks already, each layer's in a gather of their own."""
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for module in list(model.modules()):
        if isinstance(module, Experts):
            fully_shard(module, reshard_after_forward=reshard, **_options(mesh, precision, offload))


def _options(mesh: DeviceMesh, precision: str, offload: bool) -> dict[str, Any]:
    # Pinned memory is what a GPU copies from beside its work; without a GPU there is none to pin.
    host = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda")
    return {
        "mesh": mesh,
        "mp_policy": _mixed_precision(precision),
        "offload_policy": host if offload else OffloadPolicy(),
    }


def _mixed_precision(precision: str) -> MixedPrecisionPolicy:
    return MixedPrecisionPolicy(
        param_dtype=COMPUTE_TYPES[precision],
        reduce_dtype=torch.float32,
        # The rotary cache is a float argument of every layer and has to stay fp32.
        cast_forward_inputs=False,
    )
