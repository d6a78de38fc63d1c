"""Whether the weights of a model are finite."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor


@torch.no_grad()
def all_finite(model: nn.Module) -> bool:
    """Return whether every weight of all ranks is finite. Every rank calls this, and waits for its device."""
    parts = [each.to_local() if isinstance(each, DTensor) else each for each in model.parameters()]
    # The sum of the magnitudes is defined for a rank without a part, too, as the largest of them is not.
    sums = torch.stack([total.float() for total in torch._foreach_norm(parts, 1.0)])
    problem = sums.isfinite().logical_not().any().float().cpu()
    dist.all_reduce(problem)
    return not problem.item()
