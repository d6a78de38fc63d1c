"""Expert parallelism: every rank has some of the experts, whole, and tokens travel to theirs and back.

The ranks of a group see different tokens; they are ranks of the data-parallel dimensions, with another division of the
experts' weights: over `ep` by expert, and over the ranks left as FSDP does. (GShard, arXiv 2006.16668)
"""

from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from training.config import Layout
from training.model.decoder import Decoder
from training.model.experts import Experts, MixtureOfExperts, swiglu


def expert_mesh(layout: Layout, device: torch.device) -> DeviceMesh:
    """All ranks once more, as the experts' weights divide them: [pp, dp_replicate, fsdp, ep]."""
    sharded = layout.dp_shard * layout.cp // layout.ep
    sizes = (layout.pp, layout.dp_replicate, sharded, layout.ep)
    return init_device_mesh(device.type, sizes, mesh_dim_names=("pp", "dp_replicate", "fsdp", "ep"))


def parallelise(model: Decoder, mesh: DeviceMesh) -> None:
    """Divides the experts of all layers over a one-dimensional mesh."""
    for module in model.modules():
        if isinstance(module, MixtureOfExperts):
            experts = module.experts
            for name, weights in list(experts.named_parameters()):
                experts.register_parameter(name, nn.Parameter(distribute_tensor(weights, mesh, [Shard(0)])))
            experts.forward = partial(_dispatched, experts, mesh.get_group())  # type: ignore[method-assign]


def _dispatched(experts: Experts, group: dist.ProcessGroup, tokens: Tensor, counts: Tensor) -> Tensor:
    """`Experts.forward`, with each expert's tokens computed on the rank that has it."""
    ranks = dist.get_world_size(group)
    sent_counts = counts.view(ranks, -1)  # by rank and expert there
    received_counts = torch.empty_like(sent_counts)
    dist.all_to_all_single(received_counts, sent_counts, group=group)
    sent, received = sent_counts.sum(1).tolist(), received_counts.sum(1).tolist()

    arrived = _exchange(tokens, sent, received, group)  # by the rank that sent, then by expert
    own = torch.arange(sent_counts.shape[1], device=tokens.device)
    by_expert = own.repeat(ranks).repeat_interleave(received_counts.flatten()).argsort(stable=True)
    weights = [_local(weight, ranks) for weight in (experts.gate_proj, experts.up_proj, experts.down_proj)]
    outputs = swiglu(arrived[by_expert], received_counts.sum(0), *weights)
    return _exchange(outputs[by_expert.argsort()], received, sent, group)


def _local(weight: Tensor, ranks: int) -> Tensor:
    """Return the rank's experts, whose gradient is a mean over `ranks` times as many ranks as FSDP will divide by."""
    local = weight.to_local() if isinstance(weight, DTensor) else weight
    if local.requires_grad:
        # Gloo has no sum that divides by another number, which FSDP's own gradient_divide_factor asks for.
        local.register_hook(lambda gradient: gradient / ranks)  # type: ignore[no-untyped-call]
    return local


def _exchange(tokens: Tensor, sent: list[int], received: list[int], group: dist.ProcessGroup) -> Tensor:
    exchanged: Tensor = _Exchange.apply(tokens, sent, received, group)  # type: ignore[no-untyped-call]
    return exchanged


class _Exchange(torch.autograd.Function):
    """All-to-all of rows, as many for each rank as `sent` says and from each as `received` says."""

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
