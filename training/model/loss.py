"""The loss: cross-entropy of the next token, whole or in chunks of the sequence."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross-entropy in nats, in fp32, of logits [batch, sequence, vocabulary] and targets [batch, sequence]."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def chunked_cross_entropy(project: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, chunks: int) -> Tensor:
    """`cross_entropy(project(hidden), targets)`, with the logits of one chunk of the sequence at a time in memory.

    `hidden` is [batch, sequence, hidden]; the sequence is a multiple of `chunks`. The logits of a chunk are computed
    again in the backward pass: with a vocabulary of 128,256 and 8,192 tokens they take 4.2 GB in fp32, as much as
    several layers.
    """
    if chunks == 1:
        return cross_entropy(project(hidden), targets)

    def loss(part: Tensor, part_targets: Tensor) -> Tensor:
        return cross_entropy(project(part), part_targets)

    losses = [
        checkpoint(loss, part, part_targets, use_reentrant=False)
        for part, part_targets in zip(hidden.chunk(chunks, dim=1), targets.chunk(chunks, dim=1), strict=True)
    ]
    return torch.stack(losses).mean()
