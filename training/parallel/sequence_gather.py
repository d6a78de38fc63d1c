"""Gather keys and values of a sequence over ranks while something else is computed.

`send` starts the exchange of each part of the heads, and `gathered` waits for one of them. In the backward pass,
`gathered` starts the exchange of the gradients, and `send` waits for all of them. What is computed between the two, in
either direction, therefore overlaps with the exchange.
"""

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_functional = torch.ops._c10d_functional


def send(own: Tensor, parts: int, group: dist.ProcessGroup) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Start to gather [..., heads, sequence / ranks, width] in `parts` of the heads.

    Returns for each part this rank's own, and what `gathered` waits for.
    """
    sent: tuple[Tensor, ...] = _Send.apply(own, parts, group)  # type: ignore[no-untyped-call]
    return sent[:parts], sent[parts:]


def gathered(own: Tensor, pending: Tensor, group: dist.ProcessGroup) -> Tensor:
    """Wait for a part, and return it of the whole sequence, in order: [..., heads, sequence, width].

    A rank has one chunk from the head of the sequence and one from its tail.
    """
    arrived: Tensor = _Arrive.apply(own, pending, group)  # type: ignore[no-untyped-call]
    return arrived


class _Send(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, parts: int, group: dist.ProcessGroup) -> tuple[Tensor, ...]:
        split = [part.contiguous() for part in own.chunk(parts, dim=-3)]
        ranks, name = dist.get_world_size(group), group.group_name
        pending = [_functional.all_gather_into_tensor(part.flatten(0, 1), ranks, name) for part in split]
        ctx.mark_non_differentiable(*pending)
        return (*split, *pending)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:  # noqa: ARG004
        own = [_functional.wait_tensor(gradient) for gradient in gradients[: len(gradients) // 2]]
        return torch.cat(own, dim=-3), None, None


class _Arrive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, own: Tensor, pending: Tensor, group: dist.ProcessGroup) -> Tensor:
        ctx.group = group
        ranks = dist.get_world_size(group)
        by_rank = _functional.wait_tensor(pending).view(ranks, *own.shape)
        heads, tails = by_rank.chunk(2, dim=-2)
        return torch.cat((*heads.unbind(), *tails.flip(0).unbind()), dim=-2)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        ranks = dist.get_world_size(ctx.group)
        chunks = gradient.chunk(2 * ranks, dim=-2)
        by_rank = [torch.cat((chunks[rank], chunks[-1 - rank]), dim=-2) for rank in range(ranks)]
        stacked = torch.stack(by_rank).flatten(0, 2)
        own = _functional.reduce_scatter_tensor(stacked, "sum", ranks, ctx.group.group_name)
        return own.view_as(by_rank[0]), None, None
