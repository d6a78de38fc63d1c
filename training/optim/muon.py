"""Muon: momentum whose update of every matrix is orthogonalized (https://kellerjordan.github.io/posts/muon/).

PyTorch's own `torch.optim.Muon` supports only matrices, and treats each local shard as a matrix of its own. This class
orthogonalizes whole matrices, so that the update equals that of a single process in every layout. Ranks that shard a
matrix share the work, and so do ranks that have slices of every matrix of a stack, such as experts. AdamW updates the
other parameters.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor

from training.optim.owned_matrices import (
    Block,
    blocks_of,
    computed_by_owners,
    group_of,
    rounds,
    rounds_of_stacks,
    shares_of,
)

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
        self._groups: dict[Tensor, dist.ProcessGroup | None] = {}
        self._blocks: dict[Tensor, list[Block]] = {}
        """The block of each rank, by sharded matrix."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Update the parameters of all groups."""
        groups = self.param_groups
        rate, decay = groups[0]["lr"], groups[0]["weight_decay"]
        divided: dict[dist.ProcessGroup, list[Tensor]] = {}
        stacks: dict[tuple[dist.ProcessGroup, torch.Size], list[Tensor]] = {}
        for parameter in groups[0]["params"]:
            if parameter.grad is None:
                continue
            if parameter not in self._groups:
                self._groups[parameter] = group_of(parameter)
            group = self._groups[parameter]
            if group is None:
                self._apply(parameter, orthogonalised_here(self._direction(parameter)), rate, decay)
            elif parameter.ndim == 2:
                divided.setdefault(group, []).append(parameter)
            else:
                stacks.setdefault((group, parameter.shape), []).append(parameter)
        for group, matrices in divided.items():
            if any(parameter not in self._blocks for parameter in matrices):
                self._blocks |= dict(zip(matrices, blocks_of(matrices, group), strict=True))
            for some in rounds(matrices, group):
                # The iterations round to bf16 first. Rounding before the exchange loses nothing and halves the traffic.
                directions = [_local(self._direction(parameter)).bfloat16() for parameter in some]
                shapes, blocks = [parameter.shape for parameter in some], [self._blocks[each] for each in some]
                updates = computed_by_owners(directions, shapes, blocks, orthogonalised, group)
                for parameter, update in zip(some, updates, strict=True):
                    self._apply(parameter, update.float(), rate, decay)
        for (group, _), alike in stacks.items():
            for some in rounds_of_stacks(alike, group):
                self._step_of_stacks(some, group, rate, decay)
        # AdamW updates all groups that it finds in param_groups.
        self.param_groups = groups[1:]
        try:
            loss: float | None = super().step(closure)
            return loss
        finally:
            self.param_groups = groups

    def _step_of_stacks(self, stacks: list[Tensor], group: dist.ProcessGroup, rate: float, decay: float) -> None:
        """Update stacks of one shape: [matrices, rows, columns]. Each rank of the group has a part of every matrix."""
        if stacks[0] not in self._blocks:
            (self._blocks[stacks[0]],) = blocks_of(stacks[:1], group)
        directions = torch.cat([_local(self._direction(stack)).bfloat16() for stack in stacks])
        shares = shares_of(directions, stacks[0].shape, self._blocks[stacks[0]])
        del directions
        if shares:
            parts, shapes, blocks = (list(each) for each in zip(*shares, strict=True))
            updates = torch.cat(computed_by_owners(parts, shapes, blocks, orthogonalised, group)).float()
            for stack, update in zip(stacks, updates.chunk(len(stacks)), strict=True):
                self._apply(stack, update, rate, decay)

    def _direction(self, parameter: Tensor) -> Tensor:
        """Add the gradient to the momentum, and return Nesterov's momentum, which is to be orthogonalized."""
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
        if (found_inf := getattr(self, "found_inf", None)) is not None:
            # The gradient of a skipped step must not touch the momentum: zero times NaN would be NaN.
            _local(gradient).masked_fill_(found_inf.to(_local(gradient).device, non_blocking=True).bool(), 0)
        _local(momentum).lerp_(_local(gradient), self._share(gradient) * (1 - self._momentum))
        return gradient.lerp(momentum, self._momentum)

    def _apply(self, parameter: Tensor, update: Tensor, rate: float, decay: float) -> None:
        """Apply this rank's part of an orthogonalized update."""
        share = self._share(parameter)
        _local(parameter).mul_(1 - share * (rate * decay))
        _local(parameter).sub_(update * (share * (rate * 0.2 * max(parameter.shape[-2:]) ** 0.5)))

    def _share(self, tensor: Tensor) -> Tensor | float:
        """Return 0 in a skipped step, otherwise 1: [], on the device of `tensor`."""
        found_inf: Tensor | None = getattr(self, "found_inf", None)
        return 1.0 if found_inf is None else 1 - found_inf.to(_local(tensor).device, non_blocking=True)


def orthogonalised_here(direction: Tensor) -> Tensor:
    """Return this rank's part of an update whose matrices this rank has whole."""
    return orthogonalised(_local(direction))


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
