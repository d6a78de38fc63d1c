"""torchao's AdamW with moments of 8 bits, whose steps can be skipped.

It is imported only by jobs that use it, because torchao is an optional package.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torchao.optim import AdamW8bit

MOMENTS = ("exp_avg", "exp_avg_sq")


class GuardedAdamW8bit(AdamW8bit):  # type: ignore[misc]
    """`torchao.optim.AdamW8bit`, which also takes `found_inf`, as PyTorch's fused AdamW does.

    torchao updates one parameter at a time. A copy of that parameter and its state therefore suffices to undo a step.
    """

    param_groups: list[dict[str, Any]]
    _step_supports_amp_scaling = True

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update all parameters that have a gradient, unless `found_inf` is 1."""
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        if found_inf is None:
            loss: float | None = super().step(closure)
            return loss
        groups = self.param_groups
        try:
            for group in groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self.param_groups = [{**group, "params": [parameter]}]
                        self._step_parameter(parameter, found_inf.to(_parts(parameter)[0].device, non_blocking=True))
        finally:
            self.param_groups = groups
        return None

    def _step_parameter(self, parameter: Tensor, found_inf: Tensor) -> None:
        state: dict[str, Any] = self.state[parameter]
        if not state:
            # torchao would put the count on the host, which would have to wait for the device to take it back.
            state["step"] = torch.zeros((), device=found_inf.device)
            for name, signed in zip(MOMENTS, (True, False), strict=True):
                state[name] = self._new_buffer(parameter, signed)
        changed = [part for tensor in (parameter, *state.values()) for part in _parts(tensor)]
        before = [part.clone() for part in changed]
        super().step()
        for part, old in zip(changed, before, strict=True):
            part.copy_(torch.where(found_inf.bool(), old, part), non_blocking=True)


def _parts(tensor: Tensor) -> list[Tensor]:
    """Return the plain tensors in which a tensor keeps its numbers on this rank."""
    if isinstance(tensor, DTensor):
        return _parts(tensor.to_local())
    if is_traceable_wrapper_subclass(tensor):
        names, _ = tensor.__tensor_flatten__()
        return [part for name in names for part in _parts(getattr(tensor, name))]
    return [tensor.detach()]
