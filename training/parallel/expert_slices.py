"""Tensor parallelism of experts: every rank has a slice of each expert's feed-forward, and routes all tokens.

The slices are those of a plain feed-forward (see `tensor.py`). Their results are parts of a sum, which is divided by
the sequence afterward, as the residual stream is. The router's scores multiply these parts, so its gradient is a sum
over the ranks as well.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor

from training.model.experts import Experts, MixtureOfExperts, swiglu

BY_SEQUENCE = (Shard(1),)
SLICES = {"gate_proj": Shard(2), "up_proj": Shard(2), "down_proj": Shard(1)}


def parallelize(mixture: MixtureOfExperts, mesh: DeviceMesh, slice_weights: bool = True) -> None:
    """Divide the experts of a layer over a one-dimensional mesh. The router stays whole.

    Without `slice_weights`, `expert.parallelize` divides the weights and computes with their slices.
    """
    experts, router = mixture.experts, mixture.router
    distribute(router, "weight", mesh, [Replicate()])
    router.forward = partial(_scores, router)  # type: ignore[method-assign]
    mixture.forward = partial(_of_sequence, mixture.forward, mesh)  # type: ignore[method-assign]
    if slice_weights:
        for name, placement in SLICES.items():
            distribute(experts, name, mesh, [placement])
        experts.forward = partial(_of_slices, experts)  # type: ignore[method-assign]


def distribute(module: nn.Module, name: str, mesh: DeviceMesh, placements: Sequence[Placement]) -> None:
    """Replace a parameter of a module by one that is divided over a mesh."""
    weights = distribute_tensor(module.get_parameter(name), mesh, placements)
    module.register_parameter(name, nn.Parameter(weights))


def _of_slices(experts: Experts, tokens: Tensor, counts: Tensor) -> Tensor:
    """`Experts.forward` with this rank's slices: a part of the sum over all ranks."""
    weights = (_local(experts.get_parameter(name)) for name in SLICES)
    return swiglu(tokens, counts, *weights)


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
