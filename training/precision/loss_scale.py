"""The factor on a loss in fp16, without which small gradients would become zero (arXiv 1710.03740).

In the other precisions it is 1. The factor is the whole state, and it is part of the run's progress.
"""

import torch
from torch import Tensor

INITIAL = 2.0**16
"""Initial value of PyTorch's GradScaler."""
LARGEST = 2.0**24
STEPS_BETWEEN_DOUBLINGS = 1000


def initial_scale(precision: str) -> float:
    """Return the factor of a run's first step."""
    return INITIAL if precision == "fp16" else 1.0


def next_scale(scale: Tensor, step: int, overflowed: Tensor) -> Tensor:
    """Return the factor after 1-based `step` of an fp16 run: [], on the device.

    It halves after an overflow, and doubles every STEPS_BETWEEN_DOUBLINGS steps. A step that overflowed changes no
    weights. The next step uses a smaller factor.
    """
    otherwise = (scale * 2).clamp(max=LARGEST) if step % STEPS_BETWEEN_DOUBLINGS == 0 else scale
    return torch.where(overflowed, (scale / 2).clamp(min=1.0), otherwise)
