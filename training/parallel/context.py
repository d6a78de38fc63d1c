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
from torch import Tensor

from training.config import ContextMethod
from training.model.attention import attend
from training.model.decoder import Decoder, Layer
from training.parallel.sequence_gather import gathered, send


def parallelize(model: Decoder, method: ContextMethod, group: dist.ProcessGroup, sequence_length: int) -> None:
    """Replace the model's attention by attention over the ranks of `group`, for samples of `sequence_length` tokens."""
    match method:
        case "gather":
            rank, ranks = dist.get_rank(group), dist.get_world_size(group)
            chunk = sequence_length // (2 * ranks)
            firsts = (rank * chunk, (2 * ranks - 1 - rank) * chunk)
            ranked = partial(attend_gathered, firsts=firsts, group=group)
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
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Tensor | None,
    window: int | None,
    firsts: tuple[int, int],
    group: dist.ProcessGroup,
) -> Tensor:
    """Return causal attention of this rank's queries, [batch, heads, sequence / ranks, head_width].

    The queries are two chunks of the sequence, one of its first half and one of its second. They begin at the positions
    `firsts`. See `training.model.attention.attend` for the other arguments.

    An even number of heads is computed in two halves. The ranks exchange keys and values of the second half while they
    compute attention of the first half. The backward pass overlaps the two halves in the same way.
    """
    halves = 2 if key.shape[1] % 2 == 0 else 1
    own, pending = send(torch.stack((key, value)), halves, group)
    mixed = []
    for half, queries in enumerate(query.chunk(halves, dim=1)):
        keys, values = gathered(own[half], pending[half], group).unbind()
        parts = [
            # Queries do not attend to later keys, so these are not multiplied.
            attend(chunk, keys[..., :end, :], values[..., :end, :], documents, window, first)
            for first, chunk in zip(firsts, queries.chunk(2, dim=-2), strict=True)
            for end in [first + chunk.shape[-2]]
        ]
        mixed.append(torch.cat(parts, dim=-2))
    return torch.cat(mixed, dim=1) if halves > 1 else mixed[0]


def attend_by_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Tensor | None,
    window: int | None,
    group: dist.ProcessGroup,
) -> Tensor:
    """Return causal attention of this rank's queries: [batch, heads, sequence / ranks, head_width], one chunk."""
    ranks = dist.get_world_size(group)
    query, key, value = (_heads_for_sequence(heads, ranks, group) for heads in (query, key, value))
    return _sequence_for_heads(attend(query, key, value, documents, window), ranks, group)


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
