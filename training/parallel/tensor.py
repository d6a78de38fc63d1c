"""Tensor and sequence parallelism, and a loss over a divided vocabulary.

The matrices of a layer are divided by heads and by the feed-forward's width, as in Megatron-LM (arXiv 1909.08053).
Between them, the residual stream and its norms are divided by the sequence (arXiv 2205.05198). The embedding and the
output projection are divided by the vocabulary. `training.model.loss` computes the loss without gathering the logits.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._functional_collectives import wait_tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from training.model.decoder import Decoder, Layer
from training.model.experts import MixtureOfExperts
from training.parallel import expert_slices


def parallelize(model: Decoder, mesh: DeviceMesh, slice_experts: bool = True) -> None:
    """Divide a decoder, or a stage of one, over a one-dimensional mesh.

    Without `slice_experts`, `expert.parallelize` divides the weights of experts.
    """
    by_sequence = Shard(1)
    whole_sequence = PrepareModuleInput(input_layouts=(by_sequence,), desired_input_layouts=(Replicate(),))
    for layer in model.layers.values():
        layer_plan: dict[str, ParallelStyle] = {
            "input_layernorm": SequenceParallel(),
            "post_attention_layernorm": SequenceParallel(),
            # The rotary cache and the mask are plain tensors of the whole sequence, as every rank needs them.
            "self_attn": PrepareModuleInput(
                input_layouts=(by_sequence, None, None), desired_input_layouts=(Replicate(), None, None)
            ),
        }
        layer_plan |= {name: ColwiseParallel() for name in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")}
        layer_plan["self_attn.o_proj"] = RowwiseParallel(output_layouts=by_sequence)
        assert isinstance(layer, Layer)
        if isinstance(layer.mlp, MixtureOfExperts):
            expert_slices.parallelize(layer.mlp, mesh, slice_experts)
        else:
            layer_plan["mlp"] = whole_sequence
            layer_plan |= {f"mlp.{name}": ColwiseParallel() for name in ("gate_proj", "up_proj")}
            layer_plan["mlp.down_proj"] = RowwiseParallel(output_layouts=by_sequence)
        parallelize_module(layer, mesh, layer_plan)

    if model.embed_tokens is not None:
        embedding = RowwiseParallel(input_layouts=Replicate(), output_layouts=by_sequence)
        parallelize_module(model, mesh, {"embed_tokens": embedding})
        model.embed_tokens.register_forward_hook(_waited)
    if model.norm is not None:
        parallelize_module(model, mesh, {"norm": SequenceParallel()})
        # The output stays a DTensor, so that it can be multiplied with a tied embedding, which is a DTensor as well.
        model.norm.register_forward_hook(_gathered)
    if model.lm_head is not None:
        head = ColwiseParallel(input_layouts=Replicate(), output_layouts=Shard(-1), use_local_output=False)
        parallelize_module(model, mesh, {"lm_head": head})
    model.register_forward_hook(_plain)


class _Wait(torch.autograd.Function):
    """Wait for a tensor whose communication is still in progress."""

    @staticmethod
    def forward(ctx: Any, pending: Tensor) -> Tensor:  # noqa: ARG004
        arrived: Tensor = wait_tensor(pending)  # type: ignore[no-untyped-call]
        return arrived.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:  # noqa: ARG004
        return gradient


def _waited(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:  # noqa: ARG001
    # A pending tensor that enters a compiled layer loses its backward pass. The embedding's gradient would be zero,
    # without an error.
    waited: Tensor = _Wait.apply(output)  # type: ignore[no-untyped-call]
    return waited


def _gathered(module: nn.Module, inputs: Any, output: DTensor) -> DTensor:  # noqa: ARG001
    return output.redistribute(placements=[Replicate()])


def _plain(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:  # noqa: ARG001
    """Return the loss or whole logits as a plain tensor. The output of a stage for the next one stays divided."""
    # Return a copy, because FSDP warns about views: it could not detect their changes.
    return output.full_tensor().clone() if isinstance(output, DTensor) else output
