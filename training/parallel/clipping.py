"""Clip gradients over all meshes, by one norm of all gradients."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate


@torch.no_grad()
def clip_gradients(parameters: Iterable[nn.Parameter], largest_norm: float, loss_scale: Tensor | float = 1.0) -> Tensor:
    """Scale the gradients down if their norm exceeds `largest_norm`. Return the norm before that, fp32, [].

    The gradients are those of a loss multiplied by `loss_scale`. This factor is removed from the gradients and the
    norm. If a gradient overflowed, the norm is not finite on every rank.

    Every rank calls this with its parameters. A part that several ranks of a mesh hold counts once, and so does a
    parameter that only one stage of a pipeline has. One sum over all ranks is therefore right for every layout.
    """
    parts, holders = [], []
    for parameter in parameters:
        if parameter.grad is not None:
            part, ranks = _part(parameter.grad)
            parts.append(part)
            holders.append(ranks)
    norms = [norm.float() for norm in torch._foreach_norm(parts, 2.0)]
    # Divide by host numbers. A tensor of them would have to be copied first, and the host would wait for the copy.
    torch._foreach_div_(norms, [ranks**0.5 for ranks in holders])
    squared = torch.stack(norms).square().sum()
    dist.all_reduce(squared)
    norm = squared.sqrt() / loss_scale
    # Do not branch on the value, because the host would wait for the device.
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
