"""AdamW that keeps its moments in bf16: 4 bytes per parameter instead of 8.

PyTorch's fused step takes only moments of the weights' type. This class widens them to fp32 for the step, one parameter
at a time, and rounds them afterward. The arithmetic is therefore PyTorch's own, and only the rounding differs.

The rounding is stochastic, so that the mean is right. Rounding to the nearest would lose every change of less than half
of the last of bf16's 8 bits: with a beta of 0.999, a second moment would stay at a quarter of its value, and the step
would be twice as long.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

MOMENTS = ("exp_avg", "exp_avg_sq")


class BFloat16AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` of fp32 parameters, sharded or not, under the same names in a checkpoint.

    Each of the two classes can load a checkpoint of the other.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], **adamw: Any) -> None:
        super().__init__(groups, fused=True, **adamw)
        self.steps = 0
        """Number of steps so far. A skipped step counts here, and not in the state of the parameters."""
        self.register_load_state_dict_post_hook(_narrowed)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.steps += 1
        generators: dict[torch.device, torch.Generator] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    device = parameter.device
                    if device not in generators:
                        # The seed depends only on the step. A resumed run therefore rounds alike, and ranks that hold
                        # the same part of a weight keep it equal.
                        generators[device] = torch.Generator(device).manual_seed(self.steps)
                    self._step_parameter(parameter, group, generators[device])
        return loss

    def _step_parameter(self, parameter: Tensor, group: dict[str, Any], generator: torch.Generator) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros((), device=parameter.device)
            for name in MOMENTS:
                state[name] = torch.zeros_like(parameter, dtype=torch.bfloat16)
        kept = [_local(state[name]) for name in MOMENTS]
        first, second = (moment.float() for moment in kept)
        assert parameter.grad is not None
        adamw(
            [_local(parameter)],
            [_local(parameter.grad)],
            [first],
            [second],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
            grad_scale=getattr(self, "grad_scale", None),
            found_inf=getattr(self, "found_inf", None),
        )
        for moment, wide in zip(kept, (first, second), strict=True):
            moment.copy_(rounded(wide, generator))


def rounded(wide: Tensor, generator: torch.Generator) -> Tensor:
    """Round fp32 numbers to bf16, each to one of its two neighbors, at random so that the mean is right.

    A bf16 number is the upper half of an fp32 number. A random number added to the lower half carries over with the
    right probability.
    """
    chance = torch.randint(2**16, wide.shape, generator=generator, device=wide.device, dtype=torch.int32)
    return (wide.view(torch.int32) + chance).bitwise_and_(-(2**16)).view(torch.float32).bfloat16()


def _narrowed(optimizer: torch.optim.Optimizer) -> None:
    """Convert loaded moments, which PyTorch loads in the type of the weights, to bf16, and restore the step count."""
    assert isinstance(optimizer, BFloat16AdamW)
    for state in optimizer.state.values():
        for name in MOMENTS:
            state[name] = state[name].bfloat16()
        optimizer.steps = int(state["step"].item())


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
