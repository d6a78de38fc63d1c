"""Hold the state of a run on one rank while it takes its steps, and begin and end its metrics."""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from training.checkpoint import Progress
from training.checkpoint.resume import Resumed
from training.data.batches import rank_batches
from training.hosts.run_record import FROM_SCRATCH, read_record
from training.observe.metrics import Metrics
from training.observe.run_state import run_state
from training.observe.trackers import TrackerProcesses
from training.optim.step_guard import StepGuard
from training.setup import Setup


class TrainState:
    """The state of a run between two steps, beside the weights and the optimizer's state.

    `guard` decides which steps are skipped. `loss_scale` is a tensor on the device in fp16, and a number otherwise.
    `batches` are those of this rank that follow `progress`. `rewinds` counts by the step of the checkpoint.
    """

    def __init__(self, setup: Setup, progress: Progress) -> None:
        self._setup = setup
        self.rewinds = Counter[int]()
        self.continue_from(progress)

    def continue_from(self, progress: Progress) -> None:
        """Set the state to that after `progress`, which the weights already have."""
        job, world = self._setup.job, self._setup.world
        self.progress, self.first_step = progress, progress.step + 1
        self.guard = StepGuard(job.instability, world.device, progress.recent)
        scale = progress.loss_scale
        self.loss_scale: Tensor | float = torch.tensor(scale, device=world.device) if job.precision == "fp16" else scale
        self.batches = rank_batches(
            self._setup.data.samples,
            progress.samples,
            job.batch.global_,
            world.data_rank,
            world.layout.dp,
            pin=world.device.type == "cuda",
        )

    def advance(self, loss_scale: Tensor | float) -> None:
        """Count a step that was taken. `loss_scale` is that of the next step."""
        progress, samples = self.progress, self._setup.job.batch.global_
        self.progress = replace(progress, step=progress.step + 1, samples=progress.samples + samples)
        self.loss_scale = loss_scale

    def close(self) -> None:
        """Stop reading batches."""
        self.batches.close()


def start_metrics(setup: Setup, resumed: Resumed | None, description: dict[str, Any], nodes: Sequence[str]) -> Metrics:
    """Open the metrics of a run in its directory, and describe the run there, and where its platform is."""
    job, directory = setup.job, setup.directory
    if state := run_state():
        state.take("nodes", {"nodes": nodes})
    trackers = TrackerProcesses(job.trackers, job.name, directory) if job.trackers.named else None
    launch = os.environ.get(FROM_SCRATCH)
    begins_anew = launch is not None and launch not in read_record(directory).from_scratch
    follows = resumed.progress.step if resumed else 0 if begins_anew else None
    metrics = Metrics(directory, job.steps, follows, state, trackers)
    if begins_anew:
        metrics.event("from_scratch", launch=launch)
    metrics.start(**description)
    if resumed:
        metrics.event("resumed", step=resumed.progress.step, source=resumed.source)
    return metrics


def end_metrics(metrics: Metrics, progress: Progress, seconds: float, state: str) -> None:
    """Write the last event of a run that took `seconds` and is `succeeded` or `stopped`, and close its metrics."""
    loss = progress.loss
    metrics.event("end", step=progress.step, loss=loss, loss_hex=loss.hex(), seconds=seconds)
    metrics.close(state)
