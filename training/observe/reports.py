"""What a run tells of its steps. Of each it tells when the device has the next one to do, so that it never idles."""

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from training.checkpoint import Saved
from training.config import Job
from training.observe.flops import Pace
from training.observe.laps import Mark, seconds
from training.observe.metrics import Metrics


class Reading:
    """Numbers on their way from the device to the host."""

    def __init__(self, *numbers: Tensor) -> None:
        # Not blocking, `to` takes pinned memory by itself, and the host goes on while the device copies.
        self._numbers = [number.to("cpu", non_blocking=True) for number in numbers]
        self._arrived = None
        for number in numbers:
            if number.device.type != "cpu":
                self._arrived = torch.Event(number.device)
                self._arrived.record()

    def values(self) -> list[float]:
        """The numbers. Waits for what the device was given before them, and for nothing that it was given since."""
        if self._arrived:
            self._arrived.synchronize()
        return [number.item() for number in self._numbers]


@dataclass(frozen=True)
class PendingStep:
    """A step that was given to the device."""

    step: int
    samples: int
    """Of all ranks, since the job began."""
    learning_rate: float
    loss_and_norm: Reading
    marks: list[Mark]
    memory_bytes: int


class Reports:
    """Holds back one step. Every rank has one, so that none runs ahead of the others; rank 0's has metrics."""

    def __init__(self, metrics: Metrics | None, sequence_length: int, pace: Pace) -> None:
        self._metrics, self._sequence_length, self._pace = metrics, sequence_length, pace
        self._held: PendingStep | None = None

    def hold(self, step: PendingStep) -> None:
        """Keeps a step until `flush`."""
        assert self._held is None
        self._held = step

    def flush(self) -> None:
        """Tells of the step that is held. Waits until the device has done that one."""
        if self._held is None:
            return
        held, self._held = self._held, None
        loss, gradient_norm = held.loss_and_norm.values()
        breakdown = seconds(held.marks)
        step_seconds = sum(breakdown.values())
        if self._metrics:
            self._metrics.step(
                {
                    "step": held.step,
                    "loss": loss,
                    "loss_hex": loss.hex(),
                    "grad_norm": gradient_norm,
                    "learning_rate": held.learning_rate,
                    "tokens": held.samples * self._sequence_length,
                    "step_seconds": step_seconds,
                    **self._pace.of(step_seconds),
                    "memory_bytes": held.memory_bytes,
                    "breakdown": breakdown,
                }
            )

    def checkpoints(self, complete: list[Saved]) -> None:
        """Tells of checkpoints that are complete; those in memory alone are events of another name."""
        for saved in complete:
            if self._metrics:
                self._metrics.event("checkpoint" if saved.location else "memory_checkpoint", **asdict(saved))


def describe(
    job: Job, parameters: int, world_size: int, device: torch.device, resumed_from: int | None, pace: Pace
) -> dict[str, Any]:
    """What is about to run."""
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
