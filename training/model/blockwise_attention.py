"""Attention of packed sequences by blocks of queries, in plain PyTorch: for processors, and for fp32 on GPUs.

`torch.nn.attention.varlen.varlen_attn` computes the same, but only on GPUs in 16 bits. As there, a sequence's last
query attends to its last key. A block has the scores of its queries and of the keys that these attend to, so no matrix
of all scores exists. Scores and sums are in fp32, whatever the type of the inputs.

The lengths of the sequences are read on the host. On a GPU, the host therefore waits for the device in every layer.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

LONGEST_BLOCK = 128
LARGEST_BLOCK = 2**20
"""Pairs of a query and a key in a block, per head: 4 MB of scores."""


class _Block(NamedTuple):
    """Rows of the queries and keys of a block, and how many keys are before its first query."""

    queries: slice
    keys: slice
    before: int


@torch.library.custom_op("trainway::packed_attention", mutates_args=())
def _attention(
    query: Tensor, key: Tensor, value: Tensor, query_ends: Tensor, key_ends: Tensor, window: int
) -> tuple[Tensor, Tensor]:
    """Return the results of attention and the logarithms of the sums of each query's scores, fp32 [tokens, heads]."""
    result = torch.empty_like(query, memory_format=torch.contiguous_format)
    logarithms = query.new_empty(query.shape[:2], dtype=torch.float32)
    for block in _blocks(query_ends, key_ends, window):
        scores = _scores(query, key, block, window)
        sums = scores.logsumexp(-1, keepdim=True)
        result[block.queries] = _by_token((scores - sums).exp_() @ _keys(value, block), query.shape[1])
        logarithms[block.queries] = _by_token(sums, query.shape[1])[..., 0]
    return result, logarithms


@_attention.register_fake
def _(query: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    result = torch.empty_like(query, memory_format=torch.contiguous_format)
    return result, query.new_empty(query.shape[:2], dtype=torch.float32)


@torch.library.custom_op("trainway::packed_attention_backward", mutates_args=())
def _attention_backward(
    gradient: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    result: Tensor,
    logarithms: Tensor,
    query_ends: Tensor,
    key_ends: Tensor,
    window: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of query, key, and value, as FlashAttention does (arXiv 2205.14135, algorithm 4)."""
    of_query = torch.zeros_like(query, memory_format=torch.contiguous_format)
    of_key, of_value = (torch.zeros(each.shape, dtype=torch.float32, device=each.device) for each in (key, value))
    scale, groups = query.shape[-1] ** -0.5, key.shape[1]
    means = (gradient.float() * result.float()).sum(-1, keepdim=True)
    for block in _blocks(query_ends, key_ends, window):
        sums = _by_head(logarithms[..., None], block, groups)
        shares = (_scores(query, key, block, window) - sums).exp_()
        outer = _by_head(gradient, block, groups)
        of_value[block.keys] += (shares.mT @ outer).transpose(0, 1)
        of_shares = outer @ _keys(value, block).mT
        of_scores = of_shares.sub_(_by_head(means, block, groups)).mul_(shares).mul_(scale)
        of_query[block.queries] = _by_token(of_scores @ _keys(key, block), query.shape[1])
        of_key[block.keys] += (of_scores.mT @ _by_head(query, block, groups)).transpose(0, 1)
    return of_query, of_key.to(key.dtype), of_value.to(value.dtype)


@_attention_backward.register_fake
def _(gradient: Tensor, query: Tensor, key: Tensor, value: Tensor, *_: Any) -> tuple[Tensor, Tensor, Tensor]:
    del gradient
    alike = [torch.empty_like(each, memory_format=torch.contiguous_format) for each in (query, key, value)]
    return alike[0], alike[1], alike[2]


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *tensors, ctx.window = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(*tensors, *output)


def _differentiate(ctx: Any, gradient: Tensor, _: Any) -> tuple[Tensor | None, ...]:
    query, key, value, query_ends, key_ends, result, logarithms = ctx.saved_tensors
    gradients = _attention_backward(gradient, query, key, value, result, logarithms, query_ends, key_ends, ctx.window)
    return (*gradients, None, None, None)


_attention.register_autograd(_differentiate, setup_context=_setup)


def blockwise_attention(
    query: Tensor, key: Tensor, value: Tensor, query_ends: Tensor, key_ends: Tensor, window: int | None
) -> Tensor:
    """Return causal attention within each of several sequences that are packed one after the other.

    Args:
        query: [queries, heads, width].
        key: [keys, fewer heads, width]. Its number of heads divides that of the queries.
        value: like `key`.
        query_ends: ends of the sequences in the queries, with a leading 0: integers [sequences + 1]. May repeat.
        key_ends: the same in the keys. A sequence has at least as many keys as queries.
        window: how many keys a query attends to, the one of its own token included. None means all before it.

    Returns:
        [queries, heads, width].
    """
    result: Tensor = _attention(query, key, value, query_ends, key_ends, -1 if window is None else window)[0]
    return result


def _blocks(query_ends: Tensor, key_ends: Tensor, window: int) -> Iterator[_Block]:
    ends, keys = query_ends.tolist(), key_ends.tolist()
    for begin, end, first, last in zip(ends, ends[1:], keys, keys[1:], strict=False):
        # The key of a query's own token is as far from the end as the query.
        shift = last - end
        size = max(1, min(LONGEST_BLOCK, LARGEST_BLOCK // max(1, last - first)))
        for at in range(begin, end, size):
            until = min(at + size, end)
            seen = first if window < 0 else max(first, at + shift - window + 1)
            yield _Block(slice(at, until), slice(seen, until + shift), at + shift - seen)


def _scores(query: Tensor, key: Tensor, block: _Block, window: int) -> Tensor:
    """Return the scaled scores of a block, fp32 [groups, queries x heads of a group, keys]. Unseen keys have -inf."""
    scores = _by_head(query, block, key.shape[1]) @ _keys(key, block).mT
    own = torch.arange(block.queries.stop - block.queries.start, device=query.device)[:, None] + block.before
    keys = torch.arange(block.keys.stop - block.keys.start, device=query.device)
    unseen = keys > own
    if window >= 0:
        unseen |= keys <= own - window
    heads = query.shape[1] // key.shape[1]
    return scores.mul_(query.shape[-1] ** -0.5).masked_fill_(unseen.repeat_interleave(heads, 0), float("-inf"))


def _by_head(tensor: Tensor, block: _Block, groups: int) -> Tensor:
    """Return the block's rows of [queries, heads, width] in fp32, as [groups, queries x heads of a group, width]."""
    rows = tensor[block.queries].float()
    return rows.reshape(len(rows), groups, -1, rows.shape[-1]).movedim(1, 0).flatten(1, 2)


def _by_token(tensor: Tensor, heads: int) -> Tensor:
    """Return [groups, queries x heads of a group, width] as [queries, heads, width]."""
    groups, _, width = tensor.shape
    return tensor.reshape(groups, -1, heads // groups, width).movedim(0, 1).flatten(1, 2)


def _keys(tensor: Tensor, block: _Block) -> Tensor:
    """Return the block's rows of [keys, groups, width] in fp32, as [groups, keys, width]."""
    return tensor[block.keys].float().transpose(0, 1)
