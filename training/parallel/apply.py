"""The order in which all is applied: pipeline, linear layers, tensor, expert, context, checkpointing, compile, FSDP."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from training.config import Job, Layout
from training.model.decoder import Decoder
from training.parallel import (
    activation_checkpointing,
    compiler,
    context,
    expert,
    fsdp,
    mixed_precision,
    pipeline,
    tensor,
)
from training.precision import float8, transformer_engine


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
        if job.linear == "transformer-engine":
            transformer_engine.apply(stage, job.float8)
        elif job.float8.recipe != "none":
            float8.apply(stage, job.float8, layout.tp)
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
            compiler.apply(stage, job.compile, whole=expert_mesh is None and job.linear == "torch")
        if _is_whole(mesh, job):
            mixed_precision.apply(stage, job.precision)
            continue
        # A pipeline uses the weights of a stage for many micro-batches: it gathers them once a step.
        keeps_weights = layout.pp > 1 or not job.memory.reshard_after_forward
        sharding = (job.precision, not keeps_weights, job.memory.offload)
        if expert_mesh is not None:
            fsdp.shard_experts(stage, fsdp.sharding_mesh(expert_mesh), *sharding)
        fsdp.shard(stage, fsdp.sharding_mesh(mesh), *sharding)
    return stages


def _is_whole(mesh: DeviceMesh, job: Job) -> bool:
    """Whether the model is left as it is: on one rank, with nothing that only FSDP does."""
    # Transformer Engine asks for weights of its input's type, and does not see them cast.
    return mesh.size() == 1 and not (job.memory.offload or job.float8.all_gather or job.linear != "torch")


def local_positions(
    sequence_length: int, job: Job, context_group: dist.ProcessGroup | None, device: torch.device
) -> torch.Tensor:
    """The positions of a sample that this rank computes: int64, [sequence_length / cp]; all without a group."""
    if context_group is None:
        return torch.arange(sequence_length, device=device)
    return context.positions(
        sequence_length, job.parallel.cp_method, dist.get_rank(context_group), dist.get_world_size(context_group)
    ).to(device)
