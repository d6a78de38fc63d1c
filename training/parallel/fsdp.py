"""Data parallelism with FSDP2. HSDP also replicates the weights, and DDP is HSDP with groups of one rank.

Gradients are averaged over the mesh, layer by layer, during the backward pass.
"""

from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
    register_fsdp_forward_method,
)

from training.model.decoder import Decoder
from training.model.experts import Experts

COMPUTE_TYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def sharding_mesh(mesh: DeviceMesh) -> DeviceMesh:
    """Return the part of the job's mesh over which weights are sharded and replicated."""
    return mesh["fsdp"] if mesh["dp_replicate"].size() == 1 else mesh["dp_replicate", "fsdp"]


def shard(
    model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool = True, offload: bool = False
) -> None:
    """Shard the parameters in place, with one gather for each layer, the embedding, the last norm, and the output.

    A tied embedding, which is also the output, and the last norm have one gather together. The last dimension of the
    mesh shards, the one before it replicates. The sharded weights, the reduction of gradients, and the optimizer stay
    fp32 in every precision. With `offload`, a rank's shards are in host memory.
    """
    options = _options(mesh, precision, offload)
    # A rank that holds all weights gathers nothing, but resharding would cast them to the compute type once more.
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for layer in model.layers.values():
        fully_shard(layer, reshard_after_forward=reshard, **options)
    if model.embed_tokens is not None and not model.shape.tied:
        embedding: FSDPModule = fully_shard(model.embed_tokens, reshard_after_forward=reshard, **options)
        # The gradient of an embedding does not depend on its weights.
        embedding.set_unshard_in_backward(False)
    # The end of the forward and the beginning of the backward pass use the output again.
    if model.lm_head is not None:
        fully_shard(model.lm_head, reshard_after_forward=False, **options)
        register_fsdp_forward_method(model.lm_head, "loss")
    fully_shard(model, reshard_after_forward=False, **options)
    _prefetch(model)


def _prefetch(model: Decoder) -> None:
    """Start the gather of each layer before the computation of the previous one.

    In the backward pass, FSDP does so itself.
    """
    modules: list[nn.Module | None] = [model.embed_tokens, *model.layers.values(), model.lm_head]
    groups = [module for module in modules if module is not None and isinstance(module, FSDPModule)]
    for group, following in pairwise(groups):
        # Experts that are divided over other ranks have a gather of their own inside the layer.
        parts: list[FSDPModule] = [part for part in following.modules() if isinstance(part, FSDPModule)]
        group.set_modules_to_forward_prefetch(parts)


def shard_experts(
    model: Decoder, mesh: DeviceMesh, precision: str, reshard_after_forward: bool, offload: bool = False
) -> None:
    """Shard experts that are already divided over other ranks. Each layer's experts have a gather of their own."""
    reshard = reshard_after_forward and mesh.size(mesh.ndim - 1) > 1
    for module in list(model.modules()):
        if isinstance(module, Experts):
            fully_shard(module, reshard_after_forward=reshard, **_options(mesh, precision, offload))


def _options(mesh: DeviceMesh, precision: str, offload: bool) -> dict[str, Any]:
    # A GPU copies from pinned memory in parallel with its computation. Without a GPU, memory cannot be pinned.
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
