"""Causal attention of whole samples, of documents packed in them, and through a sliding window, without a mask.

A mask of all pairs of tokens would take 17 GB for 131,072 tokens, and a kernel with one computes the pairs that it
hides, too. Documents and windows are instead arguments of kernels for sequences of several lengths.
"""

import functools
import inspect
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from training.model.blockwise_attention import blockwise_attention

IN_16_BITS = (torch.bfloat16, torch.float16)


class _Lengths(NamedTuple):
    """Ends of packed sequences with a leading 0, int32 [any], and a number of tokens that no sequence exceeds."""

    ends: Tensor
    longest: int


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    documents: Tensor | None = None,
    window: int | None = None,
    first: int = 0,
) -> Tensor:
    """Return causal attention: [batch, heads, sequence, width]. The heads of key and value divide those of query.

    The queries are those of the positions from `first` on. The keys begin with the samples and end with the queries.

    `documents`, integers [batch, documents], are the positions at which the documents of each sample begin, as
    `training.data.documents.document_starts` returns them. `window` is the number of tokens that a query attends to,
    itself included.
    """
    batch, _, length, _ = query.shape
    if documents is None and (window is None or window >= first + length):
        if first == 0:
            return F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        window = None
    if documents is None:
        documents = torch.zeros(batch, 1, dtype=torch.int32, device=query.device)
    queries = _Lengths(_ends(documents, first, length), length)
    keys = _Lengths(_ends(documents, 0, first + length), first + length)
    query, key, value = (heads.transpose(1, 2).flatten(0, 1) for heads in (query, key, value))
    if query.is_cuda and query.dtype in IN_16_BITS:
        mixed = _by_kernel(query, key, value, queries, keys, window)
    else:
        mixed = blockwise_attention(query, key, value, queries.ends, keys.ends, window)
    return mixed.view(batch, length, *mixed.shape[1:]).transpose(1, 2)


def _ends(starts: Tensor, first: int, length: int) -> Tensor:
    """Return the ends of documents in the tokens from `first` on of each sample, with a leading 0: int32 [any].

    Every sample has as many entries, so their number tells nothing of the data and the host does not wait for it.
    Documents that are not among the tokens have none.
    """
    begins = (starts - first).clamp(0, length)
    # The first document of a sample begins with it.
    begins = begins + length * torch.arange(len(starts), device=starts.device)[:, None]
    return F.pad(begins.flatten(), (0, 1), value=len(starts) * length).int()


def _by_kernel(
    query: Tensor, key: Tensor, value: Tensor, queries: _Lengths, keys: _Lengths, window: int | None
) -> Tensor:
    """Return `blockwise_attention`, computed by FlashAttention."""
    from torch.nn.attention.varlen import varlen_attn

    groups = query.shape[1] // key.shape[1]
    options: dict[str, Any] = {}
    if _kernel_takes_groups():
        options["enable_gqa"] = True
    elif groups > 1:
        key, value = (heads.repeat_interleave(groups, dim=1) for heads in (key, value))
    # FlashAttention counts the keys on the left of a query's own.
    left = -1 if window is None else window - 1
    mixed = varlen_attn(
        query, key, value, queries.ends, keys.ends, queries.longest, keys.longest, window_size=(left, 0), **options
    )
    assert isinstance(mixed, Tensor)  # the logarithms of the sums are not asked for
    return mixed


@functools.cache
def _kernel_takes_groups() -> bool:
    """Return whether heads of queries can share a key and value head. Before PyTorch 2.12 they cannot."""
    from torch.nn.attention.varlen import varlen_attn

    return "enable_gqa" in inspect.signature(varlen_attn).parameters
