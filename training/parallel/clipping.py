"""Gradient clipping over every mesh: one norm of all gradients, wherever their parts are."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], largest_norm: float, loss_scale: float = 1.0) -> Tensor:
    """Scales the gradients down to `largest_norm` where they are longer. Returns their norm before that, fp32, [].

    The gradients are those of a loss that was multiplied by `loss_scale`, which is taken out of them and the norm. The
    norm of what overflowed is not finite, on every rank.

    Called by every rank with the parameters it has. A part that several ranks of a mesh hold counts once, and so does
    a parameter that only one stage of a pipeline has, so one sum over all ranks is right for every layout.
    """
    parts, holders = [], []
    for parameter in parameters:
        if parameter.grad is not None:
            part, ranks = _part(parameter.grad)
            parts.append(part)
            holders.append(ranks)
    norms = [norm.float() for norm in torch._foreach_norm(parts, 2.0)]
    # By numbers of the host: a tensor of them would have to be copied first, and the host would wait for that.
    torch._foreach_div_(norms, [ranks**0.5 for ranks in holders])
    squared = torch.stack(norms).square().sum()
    dist.all_reduce(squared)
    norm = squared.sqrt() / loss_scale
    # No branch on the value: the host would wait for the device.
    torch._foreach_mul_(parts, (largest_norm / (norm + 1e-6)).clamp(max=1.0) / loss_scale)
    return norm


def _part(gradient: Tensor) -> tuple[Tensor, float]:
    """Return this rank's part of a gradient, and how many ranks hold the same part."""
    if not isinstance(gradient, DTensor):
        return gradient, float(dist.get_world_size())
    holders = 1
    for dimension, placement in enumerate(gradient.placements):
        if isinstance(placement, Replicate):
            holders *= gradient.device_mesh.size(dimension)
    return gradient.to_local(), float(holders)
