"""Decide on the device which steps are skipped.

A gradient that is not finite would make every weight not finite, for good. The optimizers take the decision as
`found_inf`, as they take it from PyTorch's GradScaler, so the host never waits for the device. A gradient scaled by
zero would not do: zero times NaN is NaN, and the weights would decay.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from training.config import Instability


class SkipDecision(NamedTuple):
    """The decision about a step, as fp32 numbers [] on the device."""

    skipped: Tensor
    """1 if the step changes nothing, otherwise 0."""
    in_a_row: Tensor
    """Number of consecutive skipped steps so far, with this one."""


class StepGuard:
    """The decisions about the steps of a run. Every rank makes the same ones, from the same numbers.

    `recent` are the losses and gradient norms of the last steps, oldest first, of a run that resumes.
    """

    def __init__(
        self, settings: Instability, device: torch.device, recent: tuple[tuple[float, float], ...] = ()
    ) -> None:
        self._sigma, self._window = settings.spike_sigma, settings.spike_window
        self._in_a_row = torch.zeros((), device=device)
        # Row i has the numbers of the steps whose count is i modulo the window.
        self._recent = torch.zeros(self._window, 2, device=device)
        self._count = torch.zeros((), dtype=torch.int64, device=device)
        self._rows = torch.arange(self._window, device=device)
        if self._sigma is not None and recent:
            kept = recent[-self._window :]
            self._recent[: len(kept)] = torch.tensor(kept)
            self._count += len(kept)

    @torch.no_grad()
    def judge(self, loss: Tensor, gradient_norm: Tensor, loss_scale: Tensor | float = 1.0) -> SkipDecision:
        """Decide about a step from its loss and gradient norm, which are the same on every rank.

        An overflow of the gradient alone does not count toward the limit while `loss_scale` is above 1, because fp16
        finds its scale by overflows.
        """
        numbers = torch.stack([loss, gradient_norm.to(loss.device, non_blocking=True)]).float()
        finite = numbers.isfinite()
        skipped = ~finite.all()
        counted = ~finite[0] | finite[1] | (loss_scale <= torch.ones_like(numbers[1]))
        if self._sigma is not None:
            skipped = skipped | self._is_spike(numbers)
            # A spike joins the window, so that a lasting change of the level is accepted after some steps. A number
            # that is not finite would spoil the mean for as long as it is in the window.
            joins = finite.all()
            here = (self._rows == self._count % self._window) & joins
            self._recent = torch.where(here[:, None], numbers, self._recent)
            self._count = self._count + joins
        self._in_a_row = torch.where(skipped, self._in_a_row + counted, torch.zeros_like(self._in_a_row))
        return SkipDecision(skipped.float(), self._in_a_row)

    def recent(self) -> tuple[tuple[float, float], ...]:
        """Return the losses and gradient norms of the last steps, oldest first. Wait for the device.

        Empty without a rule for spikes.
        """
        count = int(self._count.item())
        rows = self._recent.tolist()
        first = count % self._window if count > self._window else 0
        ordered = rows[first:] + rows[:first]
        return tuple((loss, norm) for loss, norm in ordered[: min(count, self._window)])

    def _is_spike(self, numbers: Tensor) -> Tensor:
        """Return whether a number exceeds the mean by too many standard deviations of the last steps."""
        assert self._sigma is not None
        known = (self._rows < self._count)[:, None]
        count = self._count.clamp(max=self._window)
        mean = torch.where(known, self._recent, 0).sum(0) / count.clamp(min=1)
        squares = torch.where(known, self._recent - mean, 0).square().sum(0)
        deviation = (squares / (count - 1).clamp(min=1)).sqrt()
        exceeds = (numbers - mean > self._sigma * deviation).any()
        return exceeds & (count >= max(2, self._window // 2))
