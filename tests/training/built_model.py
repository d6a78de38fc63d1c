"""The model of a small job on a rank, of a program that torchrun has started or of a test with one rank."""

from __future__ import annotations

import torch
import torch.distributed as dist

from training.config import Job
from training.config.presets import Shape, shape_of
from training.model.decoder import Decoder, initialize
from training.parallel import limits
from training.parallel.local_model import LocalModel, local_model
from training.parallel.world import World, join

CPU = torch.device("cpu")


def built_model(job: Job, vocabulary: int, end_of_text: int, shape: Shape | None = None) -> tuple[World, LocalModel]:
    """Return the ranks of a job, and this rank's part of its model, with initial weights.

    `shape` replaces the shape of the job's model. Every rank calls this.
    """
    layout, shape = job.layout(dist.get_world_size()), shape or shape_of(job.model, job.variant)
    limits.check(shape, vocabulary, job, layout)
    world = join(layout, CPU)
    with torch.device("meta"):
        model = Decoder(shape, vocabulary, job.memory.loss_chunks)
    local = local_model(model, job, world, end_of_text)
    initialize(model, job.seed)
    return world, local
