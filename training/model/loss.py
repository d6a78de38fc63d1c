"""The cross-entropy loss of the next token, computed at once or in chunks of the sequence."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy in nats, computed in fp32.

    logits: [batch, sequence, vocabulary]. targets: [batch, sequence].
    """
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def chunked_cross_entropy(project: Callable[[Tensor], Tensor], hidden: Tensor, targets: Tensor, chunks: int) -> Tensor:
    """Return `cross_entropy(project(hidden), targets)` with only the logits of one chunk of the sequence in memory.

    `hidden` is [batch, sequence, hidden]. The sequence length is a multiple of `chunks`. The backward pass recomputes
    the logits of a chunk: with a vocabulary of 128,256 and 8,192 tokens they take 4.2 GB in fp32, as much as several
    layers.
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
