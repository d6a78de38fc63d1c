"""Compute the loss on held-out samples, the same ones each time."""

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule

from training.data.batches import Readable, read
from training.parallel.local_model import LocalModel
from training.parallel.world import World


@torch.no_grad()
def evaluate(local: LocalModel, world: World, held_out: Readable, samples: int, micro: int) -> float:
    """Return the mean loss, in nats per token, of the first `samples` held-out samples.

    Every rank calls this, and gets the same loss. `samples` is a multiple of `micro` x the data-parallel ranks.
    """
    pipeline = local.pipeline
    share = samples // world.layout.dp
    at_once = micro * (pipeline.evaluated_at_once if pipeline else 1)
    loss = torch.zeros((), device=world.device)
    for first in range(world.data_rank * share, (world.data_rank + 1) * share, at_once):
        tokens = torch.from_numpy(read(held_out, np.arange(first, first + at_once)))
        inputs, targets, documents = local.batch(tokens)
        if pipeline:
            loss += pipeline.evaluate(inputs, targets, documents)
        else:
            loss += local.model(inputs, local.rotary, targets, documents)
    # Ranks that share a sample each have the mean over an equal part of it. In a pipeline, only one rank has the loss.
    loss *= at_once / share
    dist.all_reduce(loss)
    for module in local.model.modules():
        # Free what a backward pass would have freed.
        if isinstance(module, FSDPModule):
            module.reshard()
    return loss.item() * (pipeline.ranks if pipeline else 1) / world.size
