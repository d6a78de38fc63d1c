"""Expert parallelism: every rank holds some whole experts, and tokens travel to their experts and back.

The ranks of a group process different tokens. They are ranks of the data-parallel dimensions that divide the experts'
weights in another way: over `ep` by expert, and over the remaining ranks as FSDP does. (GShard, arXiv 2006.16668)

With tensor parallelism, a rank has a slice of each of its experts, and exchanges tokens with the ranks that have the
same slices of other experts.
"""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard

from training.config import Layout
from training.model.decoder import Decoder
from training.model.experts import Experts, MixtureOfExperts, swiglu
from training.parallel.expert_slices import SLICES, distribute


def expert_mesh(layout: Layout, device: torch.device) -> DeviceMesh:
    """Return a mesh of all ranks for the experts' weights: [pp, dp_replicate, fsdp, ep, tp]."""
    sharded = layout.dp_shard * layout.cp // layout.ep
    sizes = (layout.pp, layout.dp_replicate, sharded, layout.ep, layout.tp)
    return init_device_mesh(device.type, sizes, mesh_dim_names=("pp", "dp_replicate", "fsdp", "ep", "tp"))


def parallelize(model: Decoder, mesh: DeviceMesh) -> None:
    """Divide the experts of all layers over the dimension `ep` of a mesh, and their slices over `tp` if it has that."""
    sliced = "tp" in (mesh.mesh_dim_names or ())
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            experts = module.experts
            for name, in_expert in SLICES.items():
                distribute(experts, name, mesh, [Shard(0), in_expert] if sliced else [Shard(0)])
            experts.forward = partial(_dispatched, experts, mesh.get_group("ep"))  # type: ignore[method-assign]


def _dispatched(experts: Experts, group: dist.ProcessGroup, tokens: Tensor, counts: Tensor) -> Tensor:
    """`Experts.forward`, with each expert's tokens computed on the rank that holds the expert."""
    ranks = dist.get_world_size(group)
    sent_counts = counts.view(ranks, -1)  # by rank and expert on that rank
    received_counts = torch.empty_like(sent_counts)
    dist.all_to_all_single(received_counts, sent_counts, group=group)
    # The only numbers for which the host waits, in one copy.
    sent, received = torch.stack((sent_counts.sum(1), received_counts.sum(1))).tolist()

    arrived = _exchange(tokens, sent, received, group)  # by sending rank, then by expert
    own = torch.arange(sent_counts.shape[1], device=tokens.device)
    expert_of = own.repeat(ranks).repeat_interleave(received_counts.flatten(), output_size=len(arrived))
    by_expert = expert_of.argsort(stable=True)
    weights = [_local(weight, ranks) for weight in (experts.gate_proj, experts.up_proj, experts.down_proj)]
    outputs = swiglu(arrived[by_expert], received_counts.sum(0), *weights)
    return _exchange(outputs[by_expert.argsort()], received, sent, group)


def _local(weight: Tensor, ranks: int) -> Tensor:
    """Return the rank's experts.

    Their gradient is a mean over `ranks` times as many ranks as FSDP will divide by.
    """
    local = weight.to_local() if isinstance(weight, DTensor) else weight
    if local.requires_grad:
        # FSDP's own gradient_divide_factor requires a sum divided by another number, which Gloo does not support.
        local.register_hook(lambda gradient: gradient / ranks)  # type: ignore[no-untyped-call]
    return local


def _exchange(tokens: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    exchanged: Tensor = _Exchange.apply(tokens, sent, received, group)  # type: ignore[no-untyped-call]
    return exchanged


class _Exchange(torch.autograd.Function):
    """All-to-all of rows. `sent` and `received` are the numbers of rows for each rank and from each rank."""

    @staticmethod
    def forward(ctx: Any, tokens: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
        ctx.sent, ctx.received, ctx.group = sent, received, group
        arrived = tokens.new_empty((sum(received), *tokens.shape[1:]))
        dist.all_to_all_single(arrived, tokens.contiguous(), received, sent, group=group)
        return arrived

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        returned = gradient.new_empty((sum(ctx.sent), *gradient.shape[1:]))
        dist.all_to_all_single(returned, gradient.contiguous(), ctx.sent, ctx.received, group=ctx.group)
        return returned, None, None, None
