"""Context parallelism: ranks share a sequence, and only attention needs the tokens of other ranks.

There are two methods, both exact. `gather`, as in Llama 3 (arXiv 2407.21783, section 3.3.2): every rank gets all keys
and values, and has one chunk from the head and one from the tail of the sequence, so that causal attention is the same
work on every rank. `all-to-all`, as in DeepSpeed Ulysses (arXiv 2309.14509): for attention, ranks divide the heads
instead. PyTorch's own `context_parallel` has no operator for CPUs.
"""

from functools import partial
from typing import Any, assert_never

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import CausalBias, causal_lower_right

from training.config import ContextMethod
from training.model.decoder import Decoder, Layer, attend

# The names before PyTorch 2.13.
_all_gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
_reduce_scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def parallelise(model: Decoder, method: ContextMethod, group: dist.ProcessGroup, sequence_length: int) -> None:
    """Replace the model's attention by attention over the ranks of `group`, for samples of `sequence_length` tokens."""
    match method:
        case "gather":
            rank, ranks = dist.get_rank(group), dist.get_world_size(group)
            chunk = sequence_length // (2 * ranks)
            # The last query of a chunk attends to the last key. Flash attention takes such a bias without building a
            # mask. The bias is made here, because the compiler cannot make it.
            biases = [causal_lower_right(chunk, (number + 1) * chunk) for number in (rank, 2 * ranks - 1 - rank)]
            ranked = partial(attend_gathered, biases=biases, group=group)
        case "all-to-all":
            ranked = partial(attend_by_heads, group=group)
        case other:
            assert_never(other)
    for layer in model.layers.values():
        assert isinstance(layer, Layer)
        layer.self_attn.attend = ranked


def positions(sequence_length: int, method: ContextMethod, rank: int, ranks: int) -> Tensor:
    """Return the positions of a sample that a rank has: int64, [sequence_length / ranks]."""
    match method:
        case "gather":
            chunks = torch.arange(sequence_length).chunk(2 * ranks)
            return torch.cat((chunks[rank], chunks[-1 - rank]))
        case "all-to-all":
            return torch.arange(sequence_length).chunk(ranks)[rank]
        case other:
            assert_never(other)


def attend_gathered(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, biases: list[CausalBias], group: dist.ProcessGroup
) -> Tensor:
    """Return causal attention of this rank's queries, of head and tail chunk.

    Shape: [batch, heads, sequence / ranks, head_width].
    """
    assert mask is None  # refused before the model is built
    own = torch.stack((key, value))
    everything = _Gather.apply(own, group)  # type: ignore[no-untyped-call]
    # [ranks, 2, batch, heads, sequence / ranks, width]
    heads, tails = everything.chunk(2, dim=-2)
    in_order = torch.cat((*heads.unbind(), *tails.flip(0).unbind()), dim=-2)
    mixed = []
    for bias, part in zip(biases, query.chunk(2, dim=-2), strict=True):
        # Queries do not attend to later keys, so these are not multiplied.
        seen_key, seen_value = in_order[..., : bias.seq_len_kv, :].unbind()
        mixed.append(F.scaled_dot_product_attention(part, seen_key, seen_value, bias, enable_gqa=True))
    return torch.cat(mixed, dim=-2)


def attend_by_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, group: dist.ProcessGroup) -> Tensor:
    """Return causal attention of this rank's queries: [batch, heads, sequence / ranks, head_width], one chunk."""
    assert mask is None  # refused before the model is built
    ranks = dist.get_world_size(group)
    query, key, value = (_heads_for_sequence(heads, ranks, group) for heads in (query, key, value))
    return _sequence_for_heads(attend(query, key, value, None), ranks, group)


def _heads_for_sequence(heads: Tensor, ranks: int, group: dist.ProcessGroup) -> Tensor:
    """Convert [batch, heads, sequence / ranks, width] to [batch, heads / ranks, sequence, width]."""
    by_rank = torch.stack(heads.chunk(ranks, dim=1))
    return _exchange(by_rank, group).movedim(0, 2).flatten(2, 3)


def _sequence_for_heads(sequence: Tensor, ranks: int, group: dist.ProcessGroup) -> Tensor:
    """Convert [batch, heads / ranks, sequence, width] to [batch, heads, sequence / ranks, width]."""
    by_rank = torch.stack(sequence.chunk(ranks, dim=2))
    return _exchange(by_rank, group).movedim(0, 1).flatten(1, 2)


def _exchange(by_rank: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Return this rank's entry of every rank's tensor, in the order of the ranks."""
    exchanged: Tensor = _Exchange.apply(by_rank, group)  # type: ignore[no-untyped-call]
    return exchanged


class _Exchange(torch.autograd.Function):
    """All-to-all over the first dimension, which has an entry for each rank."""

    @staticmethod
    def forward(ctx: Any, sent: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        received = torch.empty_like(sent)
        dist.all_to_all_single(received, sent, group=group)
        return received

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        gradient = gradient.contiguous()
        returned = torch.empty_like(gradient)
        dist.all_to_all_single(returned, gradient, group=ctx.group)
        return returned, None


class _Gather(torch.autograd.Function):
    """Gather [...] of every rank to [ranks, ...]. The backward pass sums the gradients of all ranks."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        ranks = dist.get_world_size(group)
        gathered = own.new_empty((ranks * own.shape[0], *own.shape[1:]))
        _all_gather(gathered, own.contiguous(), group=group)
        return gathered.view(ranks, *own.shape)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        stacked = gradient.flatten(0, 1).contiguous()
        own = stacked.new_empty((gradient.shape[1], *gradient.shape[2:]))
        _reduce_scatter(own, stacked, group=ctx.group)
        return own, None
