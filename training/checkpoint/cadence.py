"""Decide which steps get a checkpoint in storage, at a fixed interval, or with `every: auto` at a chosen interval.

Rank 0 chooses the interval, because ranks that save after different steps would wait for each other. Rank 0 measures
the time of a step and the cost of a save. At the end of each save, the threads that write it exchange the choice, in
the process group in which they write. The choice applies from the next save on, which begins on every rank after the
exchange. The steps themselves need no communication for the choice.

Each attempt measures the costs again, and begins with a short interval, whatever the attempt before had chosen. The
result of the training does not depend on the steps that are saved.
"""

import math
import statistics
from collections import deque

import torch
import torch.distributed as dist

from training.config import Checkpoint
from training.config.checkpoint_interval import ChosenInterval, choose_interval

FIRST_STEPS = 10
"""Least number of steps between checkpoints while the cost of a save is not known. A long write takes more steps."""
_SAVES_OF_COST = 9
"""The cost of a save is the median of this many saves."""
_NOTICEABLE_CHANGE = 0.25
"""A choice that differs by this share or less is not adopted, because it would change the lost time by at most 3 %."""


class Cadence:
    """The steps of one attempt that get a checkpoint in storage. Every rank has one.

    The attempt begins after the step `begins_after`, on `nodes` nodes. Only rank 0 uses the number of nodes.
    """

    def __init__(self, settings: Checkpoint, begins_after: int = 0, nodes: int = 1) -> None:
        self._settings, self._nodes = settings, nodes
        self._is_automatic = settings.every == "auto"
        self.every = FIRST_STEPS if settings.every == "auto" else settings.every
        """Steps between the newest save that has begun and the next one."""
        self.step_seconds = 0.0
        """Seconds of a step, without the time for which it waits for a save. Rank 0 sets this before each save."""
        self._next = begins_after + self.every
        self._agreed = self.every
        self._stalls, self._writes = deque[float](maxlen=_SAVES_OF_COST), deque[float](maxlen=_SAVES_OF_COST)
        self._is_first_save = True
        self._chosen: ChosenInterval | None = None
        self._told: ChosenInterval | None = None

    def is_due(self, step: int) -> bool:
        """Return whether a step gets a checkpoint in storage."""
        if not self._is_automatic:
            return step % self.every == 0
        kept = self._settings.keep_every
        return step >= self._next or (kept is not None and step % kept == 0)

    def begin_save(self, step: int) -> None:
        """Adopt the interval that the ranks agreed on during the save before, which has ended on every rank."""
        self.every = self._agreed
        self._next = step + self.every

    def take_stall(self, seconds: float) -> None:
        """Record the time for which training stood still for a save, without a wait for the save before."""
        # The first save also allocates the memory that all others use.
        if not self._is_first_save:
            self._stalls.append(seconds)
        self._is_first_save = False

    def exchange(self, write_seconds: float, group: dist.ProcessGroup | None) -> None:
        """Agree on the steps between checkpoints at the end of a save that took `write_seconds`.

        Every rank calls this, in the thread that writes. All ranks take the choice of rank 0.
        """
        if not self._is_automatic:
            return
        if dist.get_rank() == 0:
            self._writes.append(write_seconds)
            self._choose()
        agreed = torch.tensor(self._agreed)
        dist.broadcast(agreed, group_src=0, group=group)
        self._agreed = int(agreed)

    def newly_adopted(self) -> ChosenInterval | None:
        """Return the choice in force on rank 0 if it was not returned before, otherwise None."""
        chosen = self._chosen
        if chosen is None or chosen is self._told or chosen.steps != self.every:
            return None
        self._told = chosen
        return chosen

    def _choose(self) -> None:
        write = statistics.median(self._writes)
        if not self._stalls or not self.step_seconds:
            if self.step_seconds:
                self._agreed = max(FIRST_STEPS, math.ceil(write / self.step_seconds))
            return
        rate = self._settings.interruptions_per_1000_node_days
        stall = statistics.median(self._stalls)
        chosen = choose_interval(stall, write, self.step_seconds, self._nodes, rate)
        if self._chosen is None or abs(chosen.steps - self._agreed) > _NOTICEABLE_CHANGE * self._agreed:
            self._chosen, self._agreed = chosen, chosen.steps
