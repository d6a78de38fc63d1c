"""Prepare everything that a rank needs before its first step."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from training import checkpoint
from training.checkpoint import NodeMemory, Progress, model_files, weights
from training.checkpoint.agreement import from_rank_0
from training.checkpoint.identity import identity_of
from training.checkpoint.resume import Resumed
from training.config import Job, Layout
from training.config.presets import Shape, shape_of
from training.data.sources import Sources, open_sources
from training.errors import UserError
from training.hosts.locations import resolve
from training.model.decoder import Decoder, initialize
from training.model.finite import all_finite
from training.observe.flops import Pace, pace_of, peak_flops
from training.optim.optimizer import make_optimizer
from training.parallel import limits
from training.parallel.local_model import LocalModel, local_model
from training.parallel.world import Process, World, host_group
from training.precision import float8, transformer_engine
from training.precision.loss_scale import initial_scale


@dataclass(frozen=True)
class JobInputs:
    """The inputs of a job, found and checked by one process alone.

    `checkpoints` and `start_from` are resolved locations.
    """

    layout: Layout
    shape: Shape
    data: Sources
    checkpoints: str
    start_from: str | None


@dataclass(frozen=True)
class Setup:
    """A rank that is ready for its first step.

    `parameters` counts those of the whole model. `identity` is what must not change between a save and a resume.
    `hosts` is the group in which checkpoints are coordinated: a thread writes them while training uses the other
    groups. `memory` keeps checkpoints on the nodes, or is None. `checkpoints` and `start_from` are resolved locations.
    `directory` is that of the run.
    """

    job: Job
    world: World
    data: Sources
    local: LocalModel
    optimizer: torch.optim.Optimizer
    parameters: int
    identity: dict[str, Any]
    hosts: dist.ProcessGroup
    memory: NodeMemory | None
    checkpoints: str
    start_from: str | None
    directory: Path
    pace: Pace


def open_inputs(job: Job, process: Process) -> JobInputs:
    """Find every problem of a job before ranks begin to wait for each other.

    Raises:
        UserError: the job does not fit its ranks or this machine, or its data is missing or does not fit.
    """
    try:
        layout = job.layout(process.world_size)
    except ValueError as error:
        raise UserError(str(error)) from error
    shape = shape_of(job.model, job.variant)
    checkpoints = resolve(job.checkpoint_location)
    start_from = resolve(job.checkpoint.start_from) if job.checkpoint.start_from else None
    data = open_sources(job)
    limits.check(shape, data.index.vocabulary, job, layout)
    float8.check(job, layout, process.device)
    transformer_engine.check(job, process.device)
    return JobInputs(layout, shape, data, checkpoints, start_from)


def set_up(job: Job, inputs: JobInputs, world: World, directory: Path) -> Setup:
    """Return this rank's part of the model, its optimizer, and the groups of its checkpoints. Every rank calls this.

    `directory` is that of the run.
    """
    shape, index = inputs.shape, inputs.data.index
    with torch.device("meta"):
        model = Decoder(shape, index.vocabulary, job.memory.loss_chunks)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    local = local_model(model, job, world, index.end_of_text)
    identity = identity_of(job, shape, index.vocabulary, index.tokenizer.sha256, inputs.data.identity)
    # No key of the job file: the progress has a factor that depends on it.
    identity |= {"first_loss_scale": initial_scale(job.precision)}
    hosts = host_group()
    memory = None
    if job.checkpoint.memory_every:
        parts = {"ranks": world.size, "parallel": job.parallel.model_dump(), "optimizer": job.optimizer.name}
        # Another run with the same location may have steps that were deleted from storage on purpose.
        parts["run"] = from_rank_0(lambda: Path(os.environ.get("TRAINWAY_RUN", job.name)).name)
        memory = NodeMemory(inputs.checkpoints, identity, parts, hosts, job.checkpoint.local_disk)
    return Setup(
        job=job,
        world=world,
        data=inputs.data,
        local=local,
        optimizer=make_optimizer(local.model, job.optimizer),
        parameters=parameters,
        identity=identity,
        hosts=hosts,
        memory=memory,
        checkpoints=inputs.checkpoints,
        start_from=inputs.start_from,
        directory=directory,
        pace=pace_of(
            shape,
            index.vocabulary,
            job.data.sequence_length,
            job.tokens_per_step,
            peak_flops(world.device, job.precision),
            world.size,
        ),
    )


def begin(setup: Setup) -> tuple[Progress, Resumed | None]:
    """Fill the model from the newest checkpoint of the run, from `start_from`, or with its initial weights.

    Returns the progress so far, and the checkpoint that the run resumes from, or None for a new run. Every rank calls
    this.

    Raises:
        UserError: no checkpoint of the run can be read, those that it had are gone, or `start_from` is of another model
            or tokenizer.
    """
    model, job, start_from = setup.local.model, setup.job, setup.start_from
    resumed = checkpoint.resume(
        setup.checkpoints, setup.memory, model, setup.optimizer, setup.identity, setup.directory, job.checkpoint.keep
    )
    if resumed:
        return resumed.progress, resumed
    if start_from:
        weights.start(start_from, model, setup.identity)
        if not all_finite(model):
            raise UserError(f"checkpoint.start_from: {start_from} has weights that are not finite; name other weights")
        if setup.world.rank == 0:
            # An export of this run has them, whatever happens to the weights it started from.
            model_files.write(setup.checkpoints, model_files.read(start_from))
    else:
        initialize(model, job.seed)
    return Progress(step=0, samples=0, loss=float("nan"), loss_scale=initial_scale(job.precision)), None
