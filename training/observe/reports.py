"""Report the steps of a run. A step is reported after the device has its next step, so that the device never idles."""

import math
import statistics
import sys
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from training.checkpoint import FailedSave, Saved
from training.config import Job
from training.config.checkpoint_interval import ChosenInterval
from training.hosts.agent import note_progress
from training.hosts.suspect_nodes import suspect, this_attempt
from training.hosts.this_node import name_of
from training.observe.exporter import Exporter
from training.observe.flops import Pace
from training.observe.laps import Mark, seconds
from training.observe.layer_times import LayerSpan
from training.observe.metrics import Metrics
from training.observe.straggler_watch import StragglerWatch
from training.observe.stragglers import Straggler

# Number of steps whose median is the time of a step.
_STEPS_OF_PACE = 50


class StepResult(NamedTuple):
    """The numbers of a step on the host."""

    loss: float
    gradient_norm: float
    skipped: float
    """1 if the step changed nothing, otherwise 0."""
    in_a_row: float
    """Number of consecutive skipped steps that count toward the limit, with this one."""

    @property
    def reason(self) -> str:
        """Return why the step was skipped."""
        numbers = (("loss", self.loss), ("gradient norm", self.gradient_norm))
        wrong = [f"the {name} is {number}" for name, number in numbers if not math.isfinite(number)]
        spike = f"the loss {self.loss:.4f} or the gradient norm {self.gradient_norm:.4f} is a spike"
        return " and ".join(wrong) or spike


class Reading:
    """Numbers on their way from the device to the host."""

    def __init__(self, *numbers: Tensor) -> None:
        # A non-blocking `to` uses pinned memory by itself. The host continues while the device copies.
        self._numbers = [number.to("cpu", non_blocking=True) for number in numbers]
        self._arrived = None
        for number in numbers:
            if number.device.type != "cpu":
                self._arrived = torch.Event(number.device)
                self._arrived.record()

    def values(self) -> list[float]:
        """Return the numbers. Wait for the work that the device was given before them, but not for later work."""
        if self._arrived:
            self._arrived.synchronize()
        return [number.item() for number in self._numbers]

    def result(self) -> StepResult:
        """Return the numbers of a step, which were given in the order of `StepResult`."""
        return StepResult(*self.values())


@dataclass(frozen=True)
class PendingStep:
    """A step that was queued on the device."""

    step: int
    samples: int
    """Samples of all ranks since the beginning of the job."""
    learning_rate: float
    reading: Reading
    """The numbers of `StepResult`."""
    marks: list[Mark]
    memory_bytes: int
    layer_spans: list[LayerSpan]


class Reports:
    """Reports that lag by one step.

    Every rank has one, so that no rank runs ahead of the others. Rank 0's has metrics, and that of the first rank of a
    node may have an exporter. `run` is the directory of the run.
    """

    newest: StepResult | None = None
    """StepResult of the step that was reported last."""

    def __init__(
        self,
        metrics: Metrics | None,
        sequence_length: int,
        pace: Pace,
        exporter: Exporter | None = None,
        stragglers: StragglerWatch | None = None,
        run: Path | None = None,
    ) -> None:
        self._metrics, self._sequence_length, self._pace = metrics, sequence_length, pace
        self._exporter, self._stragglers = exporter, stragglers
        self._run = run
        self._named: list[Straggler] = []
        self._seconds = deque[float](maxlen=_STEPS_OF_PACE)
        self._held: PendingStep | None = None

    def hold(self, step: PendingStep) -> None:
        """Keep a step until `flush`."""
        assert self._held is None
        self._held = step

    def flush(self) -> None:
        """Report the step that is held, after the device has finished it."""
        if self._held is None:
            return
        held, self._held = self._held, None
        result = self.newest = held.reading.result()
        breakdown = seconds(held.marks)
        step_seconds = sum(breakdown.values())
        self._seconds.append(step_seconds - breakdown["checkpoint"])
        if self._stragglers:
            self._stragglers.step(held.step, breakdown["data_wait"], held.layer_spans)
        if not self._metrics and not self._exporter:
            return
        values = {
            "step": held.step,
            "loss": result.loss,
            "loss_hex": result.loss.hex(),
            "grad_norm": result.gradient_norm,
            "skipped": bool(result.skipped),
            "learning_rate": held.learning_rate,
            "tokens": held.samples * self._sequence_length,
            "step_seconds": step_seconds,
            **self._pace.of(step_seconds),
            "memory_bytes": held.memory_bytes,
            "breakdown": breakdown,
        }
        if self._exporter:
            self._exporter.step(values)
        if self._metrics:
            self._metrics.step(values)
            if result.skipped:
                self._metrics.skipped(held.step, result.reason)
        if self._stragglers:
            for found in self._stragglers.news():
                self._straggling(held.step, found)

    def _straggling(self, step: int, found: list[Straggler]) -> None:
        """Report the stragglers after a step. An event is written when they are other ranks than before."""
        before, self._named = self._named, found
        if self._exporter:
            self._exporter.stragglers(found)
        if self._metrics and [each.rank for each in found] != [each.rank for each in before]:
            self._metrics.stragglers(step, found)
            if self._run:
                for each in found:
                    reason = f"rank {each.rank} is slow since step {each.since_step}, most of it in {each.phase}"
                    suspect(self._run, name_of(each.host), "slow", reason, this_attempt())

    def step_seconds(self) -> float:
        """Return the median seconds of the last steps, without the time for which they waited for a save.

        Return 0 before the first report.
        """
        return statistics.median(self._seconds) if self._seconds else 0.0

    def interval(self, steps: int, chosen: ChosenInterval | None) -> None:
        """Report the number of steps between checkpoints, and with `every: auto` a choice that was just adopted."""
        if self._exporter:
            self._exporter.interval(steps)
        if self._metrics and chosen:
            self._metrics.interval(chosen)

    def failed_saves(self, failed: list[FailedSave]) -> None:
        """Report saves that failed, as events and as warnings."""
        for save in failed:
            if self._exporter:
                self._exporter.failed_save(save)
            if self._metrics:
                self._metrics.event("checkpoint_failed", **asdict(save))
                count = f" (failure {save.failures} of {save.limit} in a row)" if save.failures else ""
                print(f"warning: step {save.step}: {save.reason}{count}", file=sys.stderr, flush=True)

    def checkpoints(self, complete: list[Saved]) -> None:
        """Report complete checkpoints. Those that are only in memory are events with another name."""
        for saved in complete:
            note_progress(saved.step)
            if self._exporter:
                self._exporter.checkpoint(saved)
            if self._metrics:
                self._metrics.event("checkpoint" if saved.location else "memory_checkpoint", **asdict(saved))


def describe(
    job: Job, parameters: int, world_size: int, device: torch.device, resumed_from: int | None, pace: Pace
) -> dict[str, Any]:
    """Return the description of a run that is about to start."""
    return {
        "job": job.name,
        "model": job.model,
        "parameters": parameters,
        "world_size": world_size,
        "device": device.type,
        "precision": job.precision,
        "steps": job.steps,
        "resumed_from": resumed_from,
        "tokens_per_step": job.tokens_per_step,
        "flop_per_token": pace.flop_per_token,
        "torch": torch.__version__.partition("+")[0],
    }
