"""One optimizer step: the gradient, micro-batch by micro-batch, and the update of the weights."""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule

from training.model.experts import balance
from training.observe.laps import Laps
from training.optim.optimizer import learning_rate, set_learning_rate
from training.optim.optimizer import step as take_step
from training.optim.step_guard import SkipDecision, StepGuard
from training.parallel.clipping import clipping_divisor, norm_of_gradients
from training.parallel.local_model import LocalModel, TokenBatch
from training.precision import float8
from training.precision.loss_scale import next_scale
from training.setup import Setup


class Update(NamedTuple):
    """Results of an update of the weights. The numbers are on the device, and `gradient_norm` is before clipping."""

    gradient_norm: Tensor
    learning_rate: float
    decision: SkipDecision
    loss_scale: Tensor | float


def compute_gradients(
    local: LocalModel, batch: TokenBatch, micro: int, laps: Laps, scale: Tensor | float = 1.0
) -> Tensor:
    """Compute the gradients of this rank's samples, multiplied by `scale`, and return their mean loss.

    In a pipeline, only the last rank has a loss. It is 0 elsewhere.
    """
    if local.pipeline:
        loss = local.pipeline.step(*batch, scale)
        laps.lap("backward")  # includes forward, because the schedule mixes them
        return loss
    return accumulate(local, batch, micro, laps, scale)


def accumulate(local: LocalModel, batch: TokenBatch, micro: int, laps: Laps, scale: Tensor | float = 1.0) -> Tensor:
    """Compute the gradients of this rank's samples, `micro` at a time, and return their mean loss.

    The number of samples is a multiple of `micro`. The gradients are multiplied by `scale`.
    """
    model, (inputs, targets, documents) = local.model, batch
    passes = len(inputs) // micro
    loss = torch.zeros((), device=inputs.device)
    micro_documents = [None] * passes if documents is None else torch.split(documents, micro)
    micro_batches = zip(torch.split(inputs, micro), torch.split(targets, micro), micro_documents, strict=True)
    for pass_, (micro_inputs, micro_targets, its_documents) in enumerate(micro_batches, start=1):
        if isinstance(model, FSDPModule):
            _synchronize(model, local.shards_gradients, pass_ == passes)
        micro_loss = model(micro_inputs, local.rotary, micro_targets, its_documents) / passes
        loss += micro_loss.detach()
        laps.lap("forward")
        (micro_loss * scale).backward()
        laps.lap("backward")
    return loss


def _synchronize(model: FSDPModule, sharded: bool, last: bool) -> None:
    """Set what the next backward pass communicates of the gradients.

    Without communication, FSDP accumulates the gradients of whole layers in fp32. With `sharded`, every pass reduces
    and scatters them. Only the last pass reduces the shards over replicas: FSDP would otherwise keep the input of that
    reduction of every layer until the end of a pass.
    """
    model.set_requires_gradient_sync(sharded or last)
    model.set_requires_all_reduce(last)


def update_weights(setup: Setup, guard: StepGuard, step: int, loss: Tensor, scale: Tensor | float) -> Update:
    """Apply the gradients, which are multiplied by `scale`, and clear them. `step` counts from 1.

    `loss` is that of the global batch: [], on the device. A step that `guard` skips changes nothing.
    """
    job, model, optimizer = setup.job, setup.local.model, setup.optimizer
    gradient_norm = norm_of_gradients(model.parameters(), scale)
    rate = learning_rate(step, job.steps, job.optimizer.learning_rate, job.schedule)
    set_learning_rate(optimizer, rate)
    decision = guard.judge(loss, gradient_norm, scale)
    take_step(optimizer, step, decision.skipped, clipping_divisor(gradient_norm, job.clip, scale))
    float8.after_step(model, job.float8)
    balance(model, setup.world.mesh, decision.skipped)
    optimizer.zero_grad()
    if isinstance(scale, Tensor):
        scale = next_scale(scale, step, ~gradient_norm.isfinite())
    return Update(gradient_norm, rate, decision, scale)
