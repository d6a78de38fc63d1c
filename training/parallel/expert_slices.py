"""Tensor parallelism of experts: every rank has a slice of each expert's feed-forward, and routes all tokens.

The slices are those of a plain feed-forward (see `tensor.py`). Their results are parts of a sum, which is divided by
the sequence afterward, as the residual stream is. The router's scores multiply these parts, so its gradient is a sum
over the ranks as well.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor

from training.model.experts import MixtureOfExperts, swiglu

BY_SEQUENCE = (Shard(1),)
COLUMNS, ROWS = Shard(2), Shard(1)


def parallelize(mixture: MixtureOfExperts, mesh: DeviceMesh) -> None:
    """Divide the experts of a layer over a one-dimensional mesh. The router stays whole."""
    experts, router = mixture.experts, mixture.router
    for module, name, placement in (
        (experts, "gate_proj", COLUMNS),
        (experts, "up_proj", COLUMNS),
        (experts, "down_proj", ROWS),
        (router, "weight", Replicate()),
    ):
        _distribute(module, name, mesh, placement)
    forward = mixture.forward

    def of_slices(tokens: Tensor, counts: Tensor) -> Tensor:
        return swiglu(
            tokens, counts, *(_local(each) for each in (experts.gate_proj, experts.up_proj, experts.down_proj))
        )

    experts.forward = of_slices  # type: ignore[method-assign]
    router.forward = partial(_scores, router)  # type: ignore[method-assign]
    mixture.forward = partial(_of_sequence, forward, mesh)  # type: ignore[method-assign]


def _distribute(module: nn.Module, name: str, mesh: DeviceMesh, placement: Placement) -> None:
    weights = distribute_tensor(module.get_parameter(name), mesh, [placement])
    module.register_parameter(name, nn.Parameter(weights))


def _of_sequence(forward: Callable[[Tensor], Tensor], mesh: DeviceMesh, hidden: Tensor) -> Tensor:
    """Compute a layer's experts from this rank's part of the sequence to the same part."""
    # The norm before it returns a DTensor.
    divided = hidden if isinstance(hidden, DTensor) else DTensor.from_local(hidden, mesh, BY_SEQUENCE, run_check=False)
    # Each rank has the part of the gradient that its slices contribute.
    whole = divided.redistribute(placements=[Replicate()]).to_local(grad_placements=[Partial()])
    summed = DTensor.from_local(forward(whole), mesh, [Partial()], run_check=False)
    return summed.redistribute(placements=BY_SEQUENCE).to_local()


def _scores(router: nn.Linear, tokens: Tensor) -> Tensor:
    weight: Tensor = router.weight
    if isinstance(weight, DTensor):
        weight = weight.to_local(grad_placements=[Partial()])
    return F.linear(tokens, weight)


def _local(weight: Tensor) -> Tensor:
    return weight.to_local() if isinstance(weight, DTensor) else weight
