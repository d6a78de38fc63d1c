"""AdamW, its parameter groups, the learning-rate schedule and gradient clipping."""

import math

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from training import config
from training.model import Decoder


def make_optimizer(model: Decoder, settings: config.Optimizer) -> torch.optim.AdamW:
    """AdamW over the sharded parameters, decaying matrices only."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        decays = parameter.ndim > 1 and not name.startswith("embed_tokens")
        (matrices if decays else others).append(parameter)
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, settings.learning_rate, settings.betas, settings.epsilon, fused=True)


def learning_rate(step: int, steps: int, peak: float, schedule: config.Schedule) -> float:
    """The learning rate of a 1-based step: a line up to the peak, then half a cosine to the floor at `steps`.

    A function of the step alone, so that there is no state of the schedule to save.
    """
    if step <= schedule.warmup_steps:
        return peak * step / schedule.warmup_steps
    progress = (step - schedule.warmup_steps) / (steps - schedule.warmup_steps)
    cosine = 0.5 * (1.0 + math.cos(math.pi * progress))
    return peak * (schedule.minimum_ratio + (1.0 - schedule.minimum_ratio) * cosine)


def clip_gradients(model: Decoder, largest_norm: float) -> Tensor:
    """Scales the gradient down to `largest_norm` where it is longer. Returns its norm before that, over all shards."""
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), largest_norm)
    # On a sharded gradient the norm is a DTensor with a partial sum on each rank.
    return norm.full_tensor() if isinstance(norm, DTensor) else norm
