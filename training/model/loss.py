"""The cross-entropy loss of the next token, from the normalized residual stream, computed in chunks of the sequence."""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor
from torch.distributed.tensor import DTensor, Partial


class Vocabulary(NamedTuple):
    """The part of the vocabulary whose logits a rank has: it begins with the token `first`.

    `group` are the ranks that have the other parts, or None if there are no others.
    """

    first: int = 0
    group: dist.ProcessGroup | None = None


WHOLE = Vocabulary()
# The gradient of a token is at most 1, so their sum fits for normalized hidden states of up to 64.
FP16_TOKENS = 1024
LossOfChunk = Callable[[Tensor, Tensor, Vocabulary], tuple[Tensor, Tensor]]


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy in nats, computed in fp32.

    logits: [batch, sequence, vocabulary]. targets: [batch, sequence].
    """
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, chunks: int, compiled: LossOfChunk | None = None
) -> Tensor:
    """Return `cross_entropy(hidden @ weight.T, targets)` with only the logits of one chunk of the sequence in memory.

    The forward pass computes the gradients of a chunk while it has the logits, so the backward pass does not compute
    them again. With a vocabulary of 128,256 and 8,192 tokens they take 4.2 GB in fp32, as much as several layers.

    Args:
        hidden: [batch, sequence, hidden]. On a mesh of tensor parallelism, every rank has all of it.
        weight: [vocabulary, hidden]. On such a mesh, it is divided by the vocabulary.
        targets: integers [batch, sequence].
        chunks: a divisor of the sequence length.
        compiled: `loss_of_chunk` compiled, or None to compute it without the compiler.
    """
    vocabulary = WHOLE
    if isinstance(weight, DTensor):
        assert isinstance(hidden, DTensor)
        group, weight = weight.device_mesh.get_group(), weight.to_local()
        # Each rank has the part of the gradient that its logits contribute.
        hidden = hidden.to_local(grad_placements=[Partial()])
        vocabulary = Vocabulary(dist.get_rank(group) * len(weight), group)
        compiled = None  # The compiler does not fuse across collectives.
    function = compiled or loss_of_chunk
    if torch.is_grad_enabled():
        loss: Tensor = _LinearCrossEntropy.apply(hidden, weight, targets, chunks, function, vocabulary)  # type: ignore[no-untyped-call]
        return loss
    losses = [
        function(F.linear(part, weight), part_targets, vocabulary)[0]
        for part, part_targets in _chunks(hidden, targets, chunks)
    ]
    total: Tensor = torch.stack(losses).sum()
    return total / targets.numel()


def loss_of_chunk(logits: Tensor, targets: Tensor, vocabulary: Vocabulary = WHOLE) -> tuple[Tensor, Tensor]:
    """Return the sum of the cross-entropy, fp32 [], and its gradient by the logits, in their type.

    `logits` is [tokens, vocabulary of the rank], and is overwritten if it is fp32. `targets` is [tokens].
    """
    kind, group = logits.dtype, vocabulary.group
    numbers = logits.float()
    del logits  # The caller has no name for them.
    largest = numbers.amax(-1, keepdim=True)
    if group:
        dist.all_reduce(largest, dist.ReduceOp.MAX, group)
    numbers.sub_(largest)
    own = (targets - vocabulary.first)[:, None]
    has = (own >= 0) & (own < numbers.shape[1]) if group else torch.ones_like(own, dtype=torch.bool)
    own = own.clamp(0, numbers.shape[1] - 1)
    right = numbers.gather(1, own) * has
    numbers.exp_()
    sums = torch.cat((numbers.sum(-1, keepdim=True), right))
    if group:
        dist.all_reduce(sums, group=group)
    sums, right = sums.chunk(2)
    numbers.div_(sums).scatter_add_(1, own, -has.float())
    return (sums.log() - right).sum(), numbers.to(kind)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        chunks: int,
        function: LossOfChunk,
        vocabulary: Vocabulary,
    ) -> Tensor:
        loss = torch.zeros((), device=hidden.device)
        of_hidden: list[Tensor] = []
        of_weight: Tensor | None = None
        for part, part_targets in _chunks(hidden, targets, chunks):
            # No name holds the logits, so that they can be freed before their gradient is multiplied.
            part_loss, gradient = function(F.linear(part, weight), part_targets, vocabulary)
            loss += part_loss
            of_hidden.append((gradient @ weight).view(len(hidden), -1, hidden.shape[-1]))
            divisor = _divisor(gradient)
            if divisor > 1:
                gradient.div_(divisor)
            # No name holds this product either, so that it is freed before the next chunk.
            if chunks == 1 and weight.dtype != torch.float16:
                of_weight = gradient.mT @ part
            elif of_weight is None:
                of_weight = (gradient.mT @ part).float()
                if divisor > 1:
                    of_weight.mul_(divisor)
            else:
                # In fp32, because a sum of many chunks in bf16 would lose the small ones.
                of_weight.add_(gradient.mT @ part, alpha=divisor)
        assert of_weight is not None
        if weight.dtype == torch.bfloat16:
            # These are gradients of the sum over all tokens, which fp16 cannot hold.
            of_weight = of_weight.bfloat16()
        ctx.tokens, ctx.kind = targets.numel(), weight.dtype
        ctx.save_for_backward(torch.cat(of_hidden, dim=1), of_weight)
        return loss / targets.numel()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        # A schedule of a pipeline may ask twice, for hidden and for weight, so the saved tensors are not changed.
        of_hidden, of_weight = ctx.saved_tensors
        factor = gradient / ctx.tokens
        of_hidden = of_hidden * factor if ctx.needs_input_grad[0] else None
        of_weight = (of_weight * factor).to(ctx.kind) if ctx.needs_input_grad[1] else None
        return of_hidden, of_weight, None, None, None, None


def _divisor(gradient: Tensor) -> float:
    """Return the power of two that divides a gradient, [tokens, vocabulary], before it is summed over its tokens.

    It is 1, except in fp16: there a sum can exceed 65,504, and the factor of the loss is applied only afterwards.
    """
    if gradient.dtype != torch.float16:
        return 1.0
    return 2.0 ** max(0, math.ceil(math.log2(len(gradient) / FP16_TOKENS)))


def _chunks(hidden: Tensor, targets: Tensor, chunks: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield each chunk of the sequence, of all samples: [tokens, hidden] and [tokens]."""
    for part, part_targets in zip(hidden.chunk(chunks, dim=1), targets.chunk(chunks, dim=1), strict=True):
        yield part.flatten(0, 1), part_targets.flatten()
