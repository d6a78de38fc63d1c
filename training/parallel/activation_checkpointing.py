"""Activation checkpointing: the backward pass recomputes layers, either all or all but the most expensive operators."""

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from training.config import Memory
from training.model.decoder import Decoder

# Operators whose results are always kept: attention, with one operator per implementation, and communication.
KEPT = {
    torch.ops.trainway.packed_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention.default,
    torch.ops.aten._scaled_dot_product_efficient_attention.default,
    torch.ops.aten._scaled_dot_product_cudnn_attention.default,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default,
    torch.ops._c10d_functional.reduce_scatter_tensor.default,
    torch.ops._c10d_functional.all_to_all_single.default,
}
MATRIX_PRODUCTS = {
    torch.ops.aten.mm.default,
    torch.ops.aten._scaled_mm.default,
    torch.ops.aten._scaled_mm_v2.default,
}
PRODUCTS_OF_LAYER = 7
"""Four matrix products of attention and three of the feed-forward."""


def apply(model: Decoder, memory: Memory) -> None:
    """Checkpoint every `memory.checkpoint_every`-th layer, beginning with the first layer of the whole model."""
    for number, layer in model.layers.items():
        if int(number) % memory.checkpoint_every == 0:
            # Replace the method instead of the module, so that parameters keep their names.
            layer.forward = _checkpointed(layer.forward, memory.activation_checkpointing, bool(model.shape.experts))


def _checkpointed(forward: Callable[..., Tensor], mode: str, experts: bool) -> Callable[..., Tensor]:
    options: dict[str, Any] = {}
    if mode == "selective":
        options["context_fn"] = partial(_contexts, experts)
        _keep_varlen_attention()

    def recomputed(*inputs: Tensor | None) -> Tensor:
        # The model uses no random numbers, so no generator's state has to be preserved.
        output: Tensor = checkpoint(forward, *inputs, use_reentrant=False, preserve_rng_state=False, **options)
        return output

    return recomputed


def _keep_varlen_attention() -> None:
    """Keep the results of `varlen_attn`, which PyTorch registers when its module is imported.

    The import takes a quarter of the processor time of a rank's imports, and each restart repeats it.
    """
    if find_spec("torch.nn.attention.varlen"):
        import torch.nn.attention.varlen

        KEPT.add(torch.ops.torch_attn._varlen_attn.default)


def _contexts(experts: bool) -> Any:
    # The forward pass and its recomputation count separately, from the start of the layer.
    policy = partial(_policy, {False: 0, True: 0}, 0 if experts else PRODUCTS_OF_LAYER)
    return create_selective_checkpoint_contexts(policy)  # type: ignore[no-untyped-call]


def _policy(counts: dict[bool, int], last: int, context: Any, operator: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    if operator in MATRIX_PRODUCTS:
        counts[context.is_recompute] += 1
        # The recomputation ends before the last product, whose result no gradient depends on.
        kept = counts[context.is_recompute] % 2 == 1 and counts[context.is_recompute] != last
    else:
        kept = operator in KEPT
    return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE
