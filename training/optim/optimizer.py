"""The optimizer, its parameter groups, and the learning rate schedule."""

import math
from typing import Any, assert_never

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from training import config
from training.errors import UserError
from training.optim.bf16_adamw import BFloat16AdamW
from training.optim.muon import Muon


def make_optimizer(model: nn.Module, settings: config.Optimizer) -> torch.optim.Optimizer:
    """Return the optimizer of the job file for the sharded parameters. Only matrices decay.

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
            # AdamW updates the projection to the vocabulary. Muon's authors recommend it for everything outside the
            # hidden layers.
            groups = [_group(matrices, decay), _group(projections, decay), _group(others, 0)]
            return Muon([group for group in groups if group["params"]], settings.momentum, fused=True, **adamw)
        case other:
            assert_never(other)


def step(optimizer: torch.optim.Optimizer, number: int, skipped: Tensor, divisor: Tensor | None = None) -> None:
    """Apply the gradients in the step `number`, divided by `divisor`, unless `skipped` is 1.

    Both are on the device: fp32 []. A skipped step changes no weight, moment, or count, whatever the gradients are.
    """
    if isinstance(optimizer, BFloat16AdamW):
        # The number seeds its rounding. The state counts only steps that were not skipped.
        optimizer.steps = number - 1
    divides = isinstance(optimizer, torch.optim.AdamW)
    if divisor is not None and not divides:
        _divide_gradients(optimizer, divisor)
    # As PyTorch's GradScaler asks. Other optimizers know no `found_inf`, so the host has to wait for the decision.
    if not getattr(optimizer, "_step_supports_amp_scaling", False):
        if not skipped.item():
            optimizer.step()
        return
    optimizer.found_inf = skipped  # type: ignore[attr-defined]
    optimizer.grad_scale = divisor if divides else None  # type: ignore[attr-defined]
    try:
        optimizer.step()
    finally:
        # Whoever else steps, such as PyTorch before it loads a checkpoint, knows nothing of this step.
        optimizer.found_inf = optimizer.grad_scale = None  # type: ignore[attr-defined]


@torch.no_grad()
def _divide_gradients(optimizer: torch.optim.Optimizer, divisor: Tensor) -> None:
    """Divide the gradients in place, for an optimizer that does not do so itself."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    parts = [each.to_local() if isinstance(each, DTensor) else each for each in gradients]
    if parts:
        torch._foreach_div_(parts, divisor.to(parts[0].device, non_blocking=True))


def _adamw_8bit(groups: list[dict[str, Any]], adamw: dict[str, Any]) -> torch.optim.Optimizer:
    try:
        from training.optim.adamw_8bit import GuardedAdamW8bit
    except ImportError as error:
        raise UserError(
            "optimizer.name is adamw-8bit, which needs torchao: install trainway[quantized], or use adamw"
        ) from error
    optimizer: torch.optim.Optimizer = GuardedAdamW8bit(groups, **adamw)
    return optimizer


def _group(parameters: list[nn.Parameter], weight_decay: float) -> dict[str, Any]:
    return {"params": parameters, "weight_decay": weight_decay}


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Set the learning rate of this step for all parameters."""
    for group in optimizer.param_groups:
        # A compiled step holds the rate in a tensor, so that a new rate does not cause a recompilation.
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def learning_rate(step: int, steps: int, peak: float, schedule: config.Schedule) -> float:
    """Return the learning rate of a 1-based step: a linear rise to the peak, then a decay to the floor at `steps`.

    It depends only on the step, so the schedule has no state to save. The decay of `wsd` is one minus the square root
    of its progress, the best of those that Hägele et al. tried (arXiv 2405.18392, section 3.2).
    """
    if step <= schedule.warmup_steps:
        return peak * step / schedule.warmup_steps
    match schedule.shape:
        case "cosine":
            progress = (step - schedule.warmup_steps) / (steps - schedule.warmup_steps)
            height = 0.5 * (1.0 + math.cos(math.pi * progress))
        case "wsd":
            # The default is at most the number of steps after the warm-up.
            decay_steps = schedule.decay_steps or max(1, min(steps // 5, steps - schedule.warmup_steps))
            height = 1.0 - math.sqrt(max(0.0, (step - (steps - decay_steps)) / decay_steps))
        case other:
            assert_never(other)
    return peak * (schedule.minimum_ratio + (1.0 - schedule.minimum_ratio) * height)
