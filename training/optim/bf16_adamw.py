"""AdamW that keeps its moments in bf16: 4 bytes a parameter instead of 8.

PyTorch's fused step takes moments of the weights' type only. They are widened to fp32 for the step, one parameter at a
time, and rounded again after it, so the arithmetic is PyTorch's own and the rounding is all that differs.

They are rounded up or down by chance, so that the mean is right. To the nearest, a change of less than half of the last
of bf16's 8 bits would be lost each time: with a beta of 0.999 a second moment would stay at a quarter of what it should
be, and the step would be twice as long.
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

    A checkpoint of the one can be loaded into the other.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], **adamw: Any) -> None:
        super().__init__(groups, fused=True, **adamw)
        self._steps = 0
        self.register_load_state_dict_post_hook(_narrowed)

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of all parameters that have a gradient."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self._steps += 1
        generators: dict[torch.device, torch.Generator] = {}
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    device = parameter.device
                    if device not in generators:
                        # By the step alone, so that a resumed run rounds alike, and ranks that have the same part of a
                        # weight keep it the same.
                        generators[device] = torch.Generator(device).manual_seed(self._steps)
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
        )
        for moment, wide in zip(kept, (first, second), strict=True):
            moment.copy_(rounded(wide, generator))


def rounded(wide: Tensor, generator: torch.Generator) -> Tensor:
    """fp32 numbers in bf16, each one of its two neighbors there, by a chance that makes the mean right.

    A bf16 number is the first half of an fp32 number: what is added at random to the second half carries over as often
    as it should.
    """
    chance = torch.randint(2**16, wide.shape, generator=generator, device=wide.device, dtype=torch.int32)
    return (wide.view(torch.int32) + chance).bitwise_and_(-(2**16)).view(torch.float32).bfloat16()


def _narrowed(optimizer: torch.optim.Optimizer) -> None:
    """What PyTorch loads gets the type of the weights; it is made bf16 again, and the steps are counted on."""
    assert isinstance(optimizer, BFloat16AdamW)
    for state in optimizer.state.values():
        for name in MOMENTS:
            state[name] = state[name].bfloat16()
        optimizer._steps = int(state["step"].item())


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
