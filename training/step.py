"""One optimizer step: the gradient, micro-batch by micro-batch, and the update of the weights."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from training.model.experts import balance
from training.observe.laps import Laps
from training.optim.optimizer import learning_rate, set_learning_rate
from training.parallel.clipping import clip_gradients
from training.parallel.local_model import LocalModel, TokenBatch
from training.precision import float8
from training.precision.loss_scale import next_scale
from training.setup import Setup


class Update(NamedTuple):
    """What an update of the weights leaves to tell. `gradient_norm` is on the device, before clipping."""

    gradient_norm: Tensor
    learning_rate: float
    loss_scale: float


def compute_gradients(local: LocalModel, batch: TokenBatch, micro: int, laps: Laps, scale: float = 1.0) -> Tensor:
    """Leave the gradients of this rank's samples, multiplied by `scale`, and return their mean loss.

    Of a pipeline, only the last rank has a loss; it is 0 elsewhere.
    """
    if local.pipeline:
        loss = local.pipeline.step(*batch, scale)
        laps.lap("backward")  # and forward: the schedule mixes them
        return loss
    return accumulate(local, batch, micro, laps, scale)


def accumulate(local: LocalModel, batch: TokenBatch, micro: int, laps: Laps, scale: float = 1.0) -> Tensor:
    """Leave the gradients of this rank's samples, `micro` at a time, and return their mean loss.

    The number of samples is a multiple of `micro`. The gradients are multiplied by `scale`.
    """
    model, (inputs, targets, documents) = local.model, batch
    passes = len(inputs) // micro
    loss = torch.zeros((), device=inputs.device)
    micro_documents = [None] * passes if documents is None else torch.split(documents, micro)
    micro_batches = zip(torch.split(inputs, micro), torch.split(targets, micro), micro_documents, strict=True)
    for pass_, (micro_inputs, micro_targets, its_documents) in enumerate(micro_batches, start=1):
        if isinstance(model, FSDPModule):
            # Gradients are added up on their rank; only the last pass sends them.
            model.set_requires_gradient_sync(pass_ == passes)
        micro_loss = model(micro_inputs, local.rotary, micro_targets, its_documents) / passes
        loss += micro_loss.detach()
        laps.lap("forward")
        (micro_loss * scale).backward()
        laps.lap("backward")
    return loss


def update_weights(setup: Setup, step: int, scale: float) -> Update:
    """Apply the gradients, which are multiplied by `scale`, and clear them. `step` counts from 1."""
    job, model, optimizer = setup.job, setup.local.model, setup.optimizer
    gradient_norm = clip_gradients(model.parameters(), job.clip, scale)
    rate = learning_rate(step, job.steps, job.optimizer.learning_rate, job.schedule)
    set_learning_rate(optimizer, rate)
    # Only fp16 has to look at the norm before the step, and so to wait for the device.
    overflowed = job.precision == "fp16" and not math.isfinite(gradient_norm.item())
    if not overflowed:
        optimizer.step()
        float8.after_step(model, job.float8)
    balance(model, setup.world.mesh)
    optimizer.zero_grad()
    return Update(gradient_norm, rate, next_scale(scale, step, overflowed) if job.precision == "fp16" else 1.0)
