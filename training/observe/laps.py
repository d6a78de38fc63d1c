"""A step's time, cut into the phases that spent it."""

import itertools
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

PHASES = ("data_wait", "forward", "backward", "optimizer", "checkpoint", "other")


class Mark(NamedTuple):
    """The end of a lap."""

    phase: str
    host_seconds: float
    event: torch.Event | None


class Laps:
    """A lap timer: every lap goes to one phase, so the phases of a step add up to its time.

    On an accelerator, laps are events on its stream: the time that counts is the device's, and nothing waits for it.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._marks: list[Mark] = []

    def start(self) -> None:
        """Forgets the laps so far and begins a new first one."""
        self._marks = [self._mark("other")]

    def lap(self, phase: str) -> None:
        """Gives the time since the last lap to `phase`."""
        self._marks.append(self._mark(phase))

    def end_step(self) -> list[Mark]:
        """The step's marks, for `seconds`. The next step begins with the last of them, so no time is between steps."""
        marks, self._marks = self._marks, self._marks[-1:]
        return marks

    def _mark(self, phase: str) -> Mark:
        event = None
        if self._device.type != "cpu":
            event = torch.Event(self._device, enable_timing=True)
            event.record()
        return Mark(phase, time.perf_counter(), event)


def seconds(marks: Sequence[Mark]) -> dict[str, float]:
    """Seconds of every phase between the marks. Waits until the device has come to the last of them."""
    spent = dict.fromkeys(PHASES, 0.0)
    if marks and marks[-1].event:
        marks[-1].event.synchronize()
    for before, after in itertools.pairwise(marks):
        if before.event and after.event:
            spent[after.phase] += before.event.elapsed_time(after.event) / 1000  # from milliseconds
        else:
            spent[after.phase] += after.host_seconds - before.host_seconds
    return spent
