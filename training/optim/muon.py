"""Muon: momentum whose update of every matrix is orthogonalized (https://kellerjordan.github.io/posts/muon/).

PyTorch's own `torch.optim.Muon` supports only matrices, and treats each local shard as a matrix of its own. This class
gathers a matrix first, so that the update equals that of a single process in every layout. AdamW updates the other
parameters.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

ITERATIONS = 5
# The quintic of the page above. Its slope at zero is the largest that brings all singular values near one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.AdamW):
    """Muon for the first group of parameters, which are matrices or stacks of them, and AdamW for the other groups.

    The update is scaled to the usual size of AdamW's, so that one learning rate and one decay suit both (Liu et al.,
    arXiv 2502.16982, section 2.2: 0.2 x sqrt of the longer side).
    """

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float, **adamw: Any) -> None:
        super().__init__(groups, **adamw)
        self._momentum = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the parameters of all groups."""
        groups = self.param_groups
        for parameter in groups[0]["params"]:
            if parameter.grad is not None:
                self._step_matrix(parameter, groups[0]["lr"], groups[0]["weight_decay"])
        # AdamW updates all groups that it finds in param_groups.
        self.param_groups = groups[1:]
        try:
            loss: float | None = super().step(closure)
            return loss
        finally:
            self.param_groups = groups

    def _step_matrix(self, parameter: Tensor, rate: float, decay: float) -> None:
        assert parameter.grad is not None
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter.grad)
            # Muon does not use the step, but AdamW expects it in all loaded state.
            state["step"] = torch.zeros(())
        momentum: Tensor = state["momentum_buffer"]
        gradient = parameter.grad
        if (divisor := getattr(self, "grad_scale", None)) is not None:
            _local(gradient).div_(divisor.to(_local(gradient).device, non_blocking=True))
        # 0 in a skipped step, whose gradient must not touch the momentum: zero times NaN would be NaN.
        share: Tensor | float = 1.0
        if (found_inf := getattr(self, "found_inf", None)) is not None:
            found_inf = found_inf.to(_local(gradient).device, non_blocking=True)
            share = 1 - found_inf
            _local(gradient).masked_fill_(found_inf.bool(), 0)
        _local(momentum).lerp_(_local(gradient), share * (1 - self._momentum))
        # Nesterov momentum.
        update = gradient.lerp(momentum, self._momentum)
        if isinstance(update, DTensor):
            whole = update.redistribute(placements=[Replicate()] * update.device_mesh.ndim).to_local()
            # Every rank has the whole update, so it takes its part without communication.
            update = DTensor.from_local(orthogonalised(whole), update.device_mesh, run_check=False).redistribute(
                placements=update.placements
            )
        else:
            update = orthogonalised(update)
        _local(parameter).mul_(1 - share * (rate * decay))
        _local(parameter).sub_(_local(update) * (share * (rate * 0.2 * max(parameter.shape[-2:]) ** 0.5)))


def orthogonalised(matrices: Tensor) -> Tensor:
    """Return matrices with all singular values near one, for [..., rows, columns], computed in bf16.

    It runs Newton-Schulz iterations on the smaller of the two Gram matrices, from a spectral norm of at most one.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    # Flatten the leading dimensions to one stack of matrices.
    result = matrices.bfloat16().reshape(-1, *matrices.shape[-2:])
    result = result.mT if tall else result
    result = result / result.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = result @ result.mT
        factor = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
        result = torch.baddbmm(result, factor, result, beta=first)
    return (result.mT if tall else result).reshape(matrices.shape).to(matrices.dtype)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
