"""A step's time, cut into the phases that spent it."""

import itertools
import time
from typing import NamedTuple

import torch

PHASES = ("data_wait", "forward", "backward", "optimizer", "checkpoint", "other")


class _Mark(NamedTuple):
    phase: str
    host_seconds: float
    event: torch.Event | None


class Laps:
    """A lap timer: every lap goes to one phase, so the phases add up to the time from `start` to the last lap.

    On an accelerator, laps are events on its stream. The time that counts is the device's, and nothing waits for
    it before `seconds` is called.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[_Mark] = []

    def start(self) -> None:
        """Forgets the laps so far and begins a new first one."""
        self._marks = [self._mark("other")]

    def lap(self, phase: str) -> None:
        """Gives the time since the last lap to `phase`."""
        self._marks.append(self._mark(phase))

    def seconds(self) -> dict[str, float]:
        """Seconds of every phase since `start`. Waits for the device."""
        spent = dict.fromkeys(PHASES, 0.0)
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        for before, after in itertools.pairwise(self._marks):
            if before.event and after.event:
                spent[after.phase] += before.event.elapsed_time(after.event) / 1000  # from milliseconds
            else:
                spent[after.phase] += after.host_seconds - before.host_seconds
        return spent

    def _mark(self, phase: str) -> _Mark:
        event = None
        if self._device.type != "cpu":
            event = torch.Event(self._device, enable_timing=True)
            event.record()
        return _Mark(phase, time.perf_counter(), event)
