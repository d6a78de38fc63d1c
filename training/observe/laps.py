"""Divide the time of a step among its phases."""

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

PHASES = ("data_wait", "forward", "backward", "optimizer", "checkpoint", "other")


class Mark(NamedTuple):
    """The end of a lap, an interval between two marks."""

    phase: str
    host_seconds: float
    event: torch.Event | None


class Laps:
    """A lap timer. Every lap belongs to one phase, so the phases of a step add up to its time.

    On an accelerator, laps are events on its stream. They measure the device's time, and the host does not wait for
    them.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[Mark] = []

    def start(self) -> None:
        """Discard the laps so far and begin a new first lap."""
        self._marks = [self._mark("other")]

    def lap(self, phase: str) -> None:
        """Assign the time since the last lap to `phase`."""
        self._marks.append(self._mark(phase))

    def end_step(self) -> list[Mark]:
        """Return the step's marks, for `seconds`.

        The last mark begins the next step, so no time is lost between steps.
        """
        marks, self._marks = self._marks, self._marks[-1:]
        return marks

    def _mark(self, phase: str) -> Mark:
        event = None
        if self._device.type != "cpu":
            event = torch.Event(self._device, enable_timing=True)
            event.record()
        return Mark(phase, time.perf_counter(), event)


def seconds(marks: Sequence[Mark]) -> dict[str, float]:
    """Return the seconds of every phase between the marks. Wait until the device has reached the last mark."""
    spent = dict.fromkeys(PHASES, 0.0)
    if marks and marks[-1].event:
        marks[-1].event.synchronize()
    for before, after in itertools.pairwise(marks):
        if before.event and after.event:
            spent[after.phase] += before.event.elapsed_time(after.event) / 1000  # from milliseconds
        else:
            spent[after.phase] += after.host_seconds - before.host_seconds
    return spent
