"""The order in which all is applied: pipeline, float8, tensor, expert, context, checkpointing, compiler, FSDP."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from training import float8
from training.config import Job, Layout
from training.model import Decoder
from training.parallel import activation_checkpointing, compiler, context, expert, fsdp, pipeline, tensor


def parallelise(
    model: Decoder,
    job: Job,
    layout: Layout,
    mesh: DeviceMesh,
    context_group: dist.ProcessGroup | None,
    expert_mesh: DeviceMesh | None,
) -> list[Decoder]:
    """Leaves in `model`, which is on the meta device, what this rank holds of it, and spreads that over its ranks.

    Returns the stages of the pipeline that the rank has, in order: the model itself where there is no pipeline.
    """
    stages = [model]
    if layout.pp > 1:
        stages = pipeline.split(model, layout.pp, mesh.get_local_rank("pp"), job.parallel.stages_per_rank)
    for stage in stages:
        if job.float8.recipe != "none":
            float8.apply(stage, job.float8)
        if layout.tp > 1:
            tensor.parallelise(stage, mesh["tp"])
        if expert_mesh is not None:
            expert.parallelise(stage, expert_mesh["ep"])
        if context_group is not None:
            context.parallelise(stage, job.parallel.cp_method, context_group, job.data.sequence_length)
        if job.memory.activation_checkpointing != "none":
            activation_checkpointing.apply(stage, job.memory)
        if job.compile != "none":
            # Experts of other ranks have hooks of FSDP's inside the layer, which are not compiled.
            compiler.apply(stage, job.compile, whole=expert_mesh is None)
        # A pipeline uses the weights of a stage for many micro-batches: it gathers them once a step.
        keeps_weights = layout.pp > 1 or not job.memory.reshard_after_forward
        if expert_mesh is not None:
            fsdp.shard_experts(stage, fsdp.sharding_mesh(expert_mesh), job.precision, not keeps_weights)
        fsdp.shard(stage, fsdp.sharding_mesh(mesh), job.precision, reshard_after_forward=not keeps_weights)
    return stages


def local_positions(
    sequence_length: int, job: Job, context_group: dist.ProcessGroup | None, device: torch.device
) -> torch.Tensor:
    """The positions of a sample that this rank computes: int64, [sequence_length / cp]; all without a group."""
    if context_group is None:
        return torch.arange(sequence_length, device=device)
    return context.positions(
        sequence_length, job.parallel.cp_method, dist.get_rank(context_group), dist.get_world_size(context_group)
    ).to(device)
