"""The norm of all gradients over all meshes, and the number that clips them by it."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate


@torch.no_grad()
def norm_of_gradients(parameters: Iterable[nn.Parameter], loss_scale: Tensor | float = 1.0) -> Tensor:
    """Return the norm of all gradients: fp32, [].

    The gradients are those of a loss multiplied by `loss_scale`. The norm is that without this factor. If a gradient
    overflowed, the norm is not finite on every rank.

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
    return squared.sqrt() / loss_scale


def clipping_divisor(norm: Tensor, largest_norm: float, loss_scale: Tensor | float = 1.0) -> Tensor:
    """Return the number by which the gradients are divided: [], on the device of `norm`.

    It removes `loss_scale` from the gradients, and leaves them with a norm of at most `largest_norm`. The optimizer
    divides while it reads the gradients, so no pass over all of them is needed before. See `norm_of_gradients`.
    """
    # Do not branch on the value, because the host would wait for the device.
    return ((norm + 1e-6) / largest_norm).clamp(min=1.0) * loss_scale


def _part(gradient: Tensor) -> tuple[Tensor, float]:
    """Return this rank's part of a gradient, and how many ranks hold the same part."""
    if not isinstance(gradient, DTensor):
        return gradient, float(dist.get_world_size())
    holders = 1
    for dimension, placement in enumerate(gradient.placements):
        if isinstance(placement, Replicate):
            holders *= gradient.device_mesh.size(dimension)
    return gradient.to_local(), float(holders)
