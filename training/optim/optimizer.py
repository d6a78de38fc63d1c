"""The optimizer, its parameter groups and the learning-rate schedule."""

import math
from typing import Any, assert_never

import torch
from torch import Tensor, nn

from training import config
from training.errors import UserError
from training.optim.bf16_adamw import BFloat16AdamW
from training.optim.muon import Muon


def make_optimizer(model: nn.Module, settings: config.Optimizer) -> torch.optim.Optimizer:
    """The optimizer of the job file over the sharded parameters, decaying matrices only.

    Raises:
        UserError: the optimizer is in a package that is not installed.
    """
    matrices: list[nn.Parameter] = []
    projections: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        if parameter.ndim == 1 or name.startswith("embed_tokens"):
            others.append(parameter)
        elif name.startswith("lm_head"):
            projections.append(parameter)
        else:
            matrices.append(parameter)
    decay = settings.weight_decay
    adamw: dict[str, Any] = {"lr": settings.learning_rate, "betas": settings.betas, "eps": settings.epsilon}
    groups = [_group(matrices + projections, decay), _group(others, 0)]
    match settings.name:
        case "adamw":
            bf16 = settings.state == "bf16"
            return BFloat16AdamW(groups, **adamw) if bf16 else torch.optim.AdamW(groups, fused=True, **adamw)
        case "adamw-8bit":
            return _adamw_8bit(groups, adamw)
        case "muon":
            # The projection to the vocabulary is learned by AdamW, as Muon's authors advise for all that is not hidden.
            groups = [_group(matrices, decay), _group(projections, decay), _group(others, 0)]
            return Muon([group for group in groups if group["params"]], settings.momentum, fused=True, **adamw)
        case other:
            assert_never(other)


def _adamw_8bit(groups: list[dict[str, Any]], adamw: dict[str, Any]) -> torch.optim.Optimizer:
    try:
        from torchao.optim import AdamW8bit
    except ImportError as error:
        raise UserError(
            "optimizer.name is adamw-8bit, which needs torchao: install trainway[quantized], or use adamw"
        ) from error
    optimizer: torch.optim.Optimizer = AdamW8bit(groups, **adamw)
    return optimizer


def _group(parameters: list[nn.Parameter], weight_decay: float) -> dict[str, Any]:
    return {"params": parameters, "weight_decay": weight_decay}


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Gives all parameters the rate of this step."""
    for group in optimizer.param_groups:
        # A compiled step has the rate as a tensor, so that a new one does not compile it again.
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, steps: int, peak: float, schedule: config.Schedule) -> float:
    """The learning rate of a 1-based step: a line up to the peak, then by the schedule's shape to the floor at `steps`.

    A function of the step alone, so that there is no state of the schedule to save. The decay of `wsd` is one minus
    the square root of its progress, the best of those that Hägele et al. tried (arXiv 2405.18392, section 3.2).
    """
    if step <= schedule.warmup_steps:
        return peak * step / schedule.warmup_steps
    match schedule.shape:
        case "cosine":
            progress = (step - schedule.warmup_steps) / (steps - schedule.warmup_steps)
            height = 0.5 * (1.0 + math.cos(math.pi * progress))
        case "wsd":
            # As a default no longer than what the warm-up leaves.
            decay_steps = schedule.decay_steps or max(1, min(steps // 5, steps - schedule.warmup_steps))
            height = 1.0 - math.sqrt(max(0.0, (step - (steps - decay_steps)) / decay_steps))
        case other:
            assert_never(other)
    return peak * (schedule.minimum_ratio + (1.0 - schedule.minimum_ratio) * height)
