"""A package of yours, which the jobs of the platform can import."""

import torch


def double(tensor: torch.Tensor) -> torch.Tensor:
    """Return twice a tensor of any shape."""
    return torch.add(tensor, tensor)
