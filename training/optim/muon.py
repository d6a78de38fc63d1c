"""Muon: momentum whose update of every matrix is made orthogonal (https://kellerjordan.github.io/posts/muon/).

PyTorch's own `torch.optim.Muon` multiplies the shards of a matrix as if each were a matrix of its own where it is given
local tensors, and takes no parameters but matrices. This one gathers a matrix first, so that the update is that of a
single process in every layout, and gives the other parameters to AdamW.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate

ITERATIONS = 5
# The quintic of the page above, whose slope at zero is as large as lets all singular values come near one.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


class Muon(torch.optim.AdamW):
    """Muon for the first group of parameters, which are matrices or stacks of them, and AdamW for the other groups.

    The update is scaled to the usual size of AdamW's, so that one learning rate and one decay do for both (Liu et al.,
    arXiv 2502.16982, section 2.2: 0.2 x sqrt of the longer side).
    """

    def __init__(self, groups: Iterable[dict[str, Any]], momentum: float, **adamw: Any) -> None:
        super().__init__(groups, **adamw)
        self._momentum = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step of all groups."""
        groups = self.param_groups
        for parameter in groups[0]["params"]:
            if parameter.grad is not None:
                self._step_matrix(parameter, groups[0]["lr"], groups[0]["weight_decay"])
        # AdamW steps over the groups that it finds.
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
            # Not used here, but AdamW looks for it in all state that is loaded.
            state["step"] = torch.zeros(())
        momentum: Tensor = state["momentum_buffer"]
        momentum.lerp_(parameter.grad, 1 - self._momentum)
        # Nesterov's look ahead.
        update = parameter.grad.lerp(momentum, self._momentum)
        if isinstance(update, DTensor):
            whole = update.redistribute(placements=[Replicate()] * update.device_mesh.ndim).to_local()
            # Every rank has the whole update, so taking its part of it sends nothing.
            update = DTensor.from_local(orthogonalised(whole), update.device_mesh, run_check=False).redistribute(
                placements=update.placements
            )
        else:
            update = orthogonalised(update)
        parameter.mul_(1 - rate * decay)
        parameter.add_(update, alpha=-rate * 0.2 * max(parameter.shape[-2:]) ** 0.5)


def orthogonalised(matrices: Tensor) -> Tensor:
    """The nearest matrix with all singular values near one, of each of [..., rows, columns]; computed in bf16.

    Newton-Schulz iterations on the smaller of the two Gram matrices, from a spectral norm of at most one.
    """
    tall = matrices.shape[-2] > matrices.shape[-1]
    # One stack of matrices, whatever the dimensions before them.
    result = matrices.bfloat16().reshape(-1, *matrices.shape[-2:])
    result = result.mT if tall else result
    result = result / result.norm(dim=(-2, -1), keepdim=True).clamp(min=1e-7)
    first, third, fifth = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram = result @ result.mT
        factor = torch.baddbmm(gram, gram, gram, beta=third, alpha=fifth)
        result = torch.baddbmm(result, factor, result, beta=first)
    return (result.mT if tall else result).reshape(matrices.shape).to(matrices.dtype)
