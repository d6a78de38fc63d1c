"""Apply parallelism in order: pipeline, linear layers, tensor, expert, context, checkpointing, compile, FSDP."""

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from training.config import Job
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
from training.parallel.world import World
from training.precision import float8, transformer_engine


def parallelize(model: Decoder, job: Job, world: World) -> list[Decoder]:
    """Keep in `model`, which is on the meta device, the part that this rank holds, and shard it over its ranks.

    Returns the rank's stages of the pipeline, in order: the model itself without pipeline parallelism.
    """
    layout, mesh = world.layout, world.mesh
    stages = [model]
    if layout.pp > 1:
        stages = pipeline.split(model, layout.pp, mesh.get_local_rank("pp"), job.parallel.stages_per_rank)
    for stage in stages:
        if job.linear == "transformer-engine":
            transformer_engine.apply(stage, job.float8)
        elif job.float8.recipe != "none":
            float8.apply(stage, job.float8, world.device, layout.tp)
        if layout.tp > 1:
            tensor.parallelize(stage, mesh["tp"], slice_experts=world.experts is None)
        if world.experts is not None:
            expert.parallelize(stage, world.experts["ep", "tp"] if layout.tp > 1 else world.experts["ep"])
        if world.context is not None:
            context.parallelize(stage, job.parallel.cp_method, world.context, job.data.sequence_length)
        if job.memory.activation_checkpointing != "none":
            activation_checkpointing.apply(stage, job.memory)
        if job.compile != "none":
            # Experts on other ranks have FSDP hooks inside the layer, which are not compiled.
            compiler.apply(stage, job.compile, whole=world.experts is None and job.linear == "torch")
        if _is_whole(mesh, job):
            mixed_precision.apply(stage, job.precision)
            continue
        # A pipeline uses the weights of a stage for many micro-batches, so it gathers them once per step.
        keeps_weights = layout.pp > 1 or not job.memory.reshard_after_forward
        sharding = (job.precision, not keeps_weights, job.memory.offload)
        if world.experts is not None:
            fsdp.shard_experts(stage, fsdp.sharding_mesh(world.experts), *sharding)
        fsdp.shard(stage, fsdp.sharding_mesh(mesh), *sharding)
    return stages


def _is_whole(mesh: DeviceMesh, job: Job) -> bool:
    """Return whether the model stays unchanged: on one rank, without any feature that only FSDP provides."""
    # Transformer Engine requires weights of its input's type, and does not see the cast ones.
    return mesh.size() == 1 and not (job.memory.offload or job.float8.all_gather or job.linear != "torch")


def local_positions(job: Job, world: World) -> torch.Tensor:
    """Return the positions of a sample that this rank computes: int64 [sequence_length / cp]."""
    length, group = job.data.sequence_length, world.context
    if group is None:
        return torch.arange(length, device=world.device)
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    return context.positions(length, job.parallel.cp_method, rank, ranks).to(world.device)
