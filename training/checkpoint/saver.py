"""Write checkpoints while training continues.

A thread copies the state to host memory and writes the copy. The copy is made while the next step computes its
gradients, which does not change the state. `wait_until_copied` is called before the optimizer changes it. The ranks'
threads communicate in a group of their own, because collectives of two threads in one group would receive each other's
messages.
"""

import threading
import time
from collections.abc import Callable, Collection
from concurrent import futures
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from training.checkpoint import stored
from training.checkpoint.agreement import agree
from training.checkpoint.cadence import Cadence
from training.checkpoint.copies import HostCopy
from training.checkpoint.memory import NodeMemory, NotKept
from training.checkpoint.plans import KeptPlans
from training.checkpoint.state import Progress, StateDict, state_of
from training.config import Checkpoint
from training.errors import LocationInUse, UserError
from training.model.decoder import Decoder

SECONDS_BEFORE_RETRY = 2.0
"""Seconds between the first two attempts at the last save. They double with each further attempt."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is complete."""

    step: int
    location: str | None
    """Location of the checkpoint in storage. None if the checkpoint is only on the nodes."""
    seconds: float
    """Seconds for which training stood still."""
    total_seconds: float
    """Seconds from the beginning of the save until the checkpoint was complete."""
    every: int
    """Steps between this save and the next one to storage."""


@dataclass(frozen=True)
class FailedSave:
    """A save that failed, while the run continues."""

    step: int
    reason: str
    failures: int
    """Number of consecutive failed saves, with this one."""
    limit: int
    """Number of consecutive failed saves after which the run ends."""


@dataclass(frozen=True)
class Destination:
    """The storage and the nodes that keep the checkpoints of a run, and the ranks that write them.

    `group` is the group of all ranks over gloo. During training, only the thread of the saver uses it. `check_leases`
    raises LocationInUse, which ends the run at once, before anything is written where another run writes.
    """

    location: str
    """Location of the checkpoints in storage."""
    memory: NodeMemory | None
    """The copies on the nodes. None if the nodes keep no copies."""
    group: dist.ProcessGroup
    check_leases: Callable[[], None] = lambda: None
    damaged: Collection[int] = ()
    """Steps whose checkpoints in storage cannot be read."""


_THREAD = "checkpoint"


@dataclass
class _Save:
    """A save in progress."""

    step: int
    location: str | None
    to_memory: bool
    last: bool
    every: int
    began: float
    copied: threading.Event = field(default_factory=threading.Event)
    written: Future[float | None] = field(default_factory=Future)
    """Time at which the checkpoint was complete. None if it failed, and the run continues."""
    stalled: float = 0.0
    """Seconds for which training has stood still so far."""


def is_saving() -> bool:
    """Return whether the thread of a saver still runs. Python waits for the thread before the process exits."""
    return any(thread.name.startswith(_THREAD) for thread in threading.enumerate())


class Saver:
    """Save one checkpoint at a time. Every rank calls the methods.

    `device` has the state that is saved. `failed` reports a save that fails. The run then saves at the next interval.
    After too many failures, `on_failure` is called in another thread, and the next `save` or `wait` raises the error,
    on every rank. `cadence` says which steps are saved. Without it, they are those of an attempt that begins after
    step 0. After an error, a save in progress has `patience` seconds.
    """

    def __init__(
        self,
        destination: Destination,
        settings: Checkpoint,
        device: torch.device,
        on_failure: Callable[[], None],
        cadence: Cadence | None = None,
        patience: float = 1800,
    ) -> None:
        self._location, self._memory, self._group = destination.location, destination.memory, destination.group
        self._check_leases, self._damaged = destination.check_leases, set(destination.damaged)
        self._settings, self._on_failure = settings, on_failure
        self._cadence, self._patience = cadence or Cadence(settings), patience
        self._copy, self._plans = HostCopy(device), KeptPlans()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=_THREAD)
        self._under_way: _Save | None = None
        self._complete: list[Saved] = []
        self._failed: list[FailedSave] = []
        self._failures, self._newest = 0, time.monotonic()
        self._postponed = False
        self._nodes_keep = True
        self._sound: set[int] = set()

    def due(self, step: int) -> bool:
        """Return whether a step is to be saved, in storage or on the nodes."""
        return self._postponed or self._cadence.is_due(step) or self._due_in_memory(step)

    def postpone(self, step: int) -> None:
        """Save the next step that is not skipped, instead of this one, if this one was to be saved in storage."""
        self._postponed = self._postponed or self._cadence.is_due(step)

    def save(
        self,
        model: Decoder,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        identity: dict[str, Any],
        last: bool = False,
    ) -> None:
        """Begin to save the state after the previous save is complete. The `last` save goes to storage.

        Raises:
            UserError: too many saves failed. Raised on every rank.
        """
        step = progress.step
        to_storage = last or self._postponed or self._cadence.is_due(step)
        if not to_storage and self._busy_on_any_rank():
            # Skip this copy on the nodes: waiting for storage would stall training.
            return
        self.wait()
        if to_storage:
            self._postponed = False
            self._cadence.begin_save(step)
        location = stored.step_location(self._location, step) if to_storage else None
        to_memory = self._due_in_memory(step) and not last
        save = _Save(step, location, to_memory, last, self._cadence.every, time.monotonic())
        state = state_of(model, optimizer, progress, identity)
        if self._settings.async_:
            self._copy.follow()
            save.written = self._thread.submit(self._copy_and_write, save, state)
            save.written.add_done_callback(lambda done: self._on_failure() if done.exception() else None)
        else:
            save.written.set_result(self._written(save, state))
        save.stalled = time.monotonic() - save.began
        self._under_way = save

    def wait_until_copied(self) -> None:
        """Wait until training may change the state."""
        if self._under_way and self._settings.async_:
            began = time.monotonic()
            self._under_way.copied.wait()
            self._under_way.stalled += time.monotonic() - began

    def wait(self) -> None:
        """Wait until no save is in progress.

        Raises:
            UserError: too many saves failed. Raised on every rank.
        """
        if self._under_way is None:
            return
        save = self._under_way
        began = time.monotonic()
        if save.location:
            self._cadence.take_stall(save.stalled)
        try:
            ended = save.written.result()
        finally:
            # A wait that is interrupted leaves the save under way.
            if save.written.done():
                self._under_way = None
        stalled = save.stalled + time.monotonic() - began
        if ended is None:
            return
        self._complete.append(Saved(save.step, save.location, stalled, ended - save.began, save.every))

    def complete(self) -> list[Saved]:
        """Return the checkpoints that became complete since the last call, in order, without waiting."""
        if self._under_way and self._under_way.written.done() and not self._under_way.written.exception():
            self.wait()
        complete, self._complete = self._complete, []
        return complete

    def failed(self) -> list[FailedSave]:
        """Return the saves that failed since the last call, without waiting, also of a checkpoint that is complete."""
        failed, self._failed = self._failed, []
        return failed

    def close(self) -> None:
        """Stop the thread after it has written its current checkpoint."""
        self._thread.shutdown()

    def leave(self, error: type[BaseException] | None, *_: object) -> None:
        """Close the saver when a `with` block ends.

        After an error, wait at most `patience` seconds for the current save.

        A stopped rank never joins the current save. The process group of checkpoints has a timeout of 30 minutes.
        """
        if error is None or self._under_way is None:
            self.close()
            return
        ended = futures.wait([self._under_way.written], timeout=self._patience)
        self._thread.shutdown(wait=bool(ended.done))

    def _due_in_memory(self, step: int) -> bool:
        every = self._settings.memory_every
        return self._memory is not None and every is not None and step % every == 0

    def _copy_and_write(self, save: _Save, state: StateDict) -> float | None:
        problem = None
        try:
            state = self._copy.of(state)
        except (RuntimeError, MemoryError) as error:
            problem = f"the state of step {save.step} cannot be copied to the host's memory: {error}"
        finally:
            save.copied.set()
        agree(problem, self._group)
        return self._written(save, state)

    def _written(self, save: _Save, state: StateDict) -> float | None:
        """Write a state, and return the time at which the checkpoint was complete, or None if it failed.

        Try the last save of a run several times, because no other follows it.

        Raises:
            UserError: too many saves failed. Raised on every rank.
        """
        while True:
            try:
                complete = self._write(save, state)
            except LocationInUse:
                raise
            except UserError as error:
                self._failures += 1
                self._failed.append(FailedSave(save.step, str(error), self._failures, self._settings.failures))
                if self._failures >= self._settings.failures or self._newest_is_too_old():
                    raise
                if not save.last:
                    return None
                time.sleep(SECONDS_BEFORE_RETRY * 2 ** (self._failures - 1))
            else:
                if save.location:
                    # A copy on the nodes says nothing about storage, and is lost with the nodes.
                    self._failures, self._newest = 0, time.monotonic()
                return complete

    def _newest_is_too_old(self) -> bool:
        """Return whether rank 0 finds the newest checkpoint too old for another failure."""
        limit = self._settings.failure_minutes
        if limit is None:
            return False
        too_old = torch.tensor(float(time.monotonic() - self._newest > 60 * limit))
        dist.broadcast(too_old, group_src=0, group=self._group)
        return bool(too_old)

    def _write(self, save: _Save, state: StateDict) -> float | None:
        """Write a state, and return the time at which the checkpoint was complete, or None if nobody keeps it."""
        kept = self._keep_on_nodes(save, state)
        if save.location:
            self._check_leases()
            stored.save(self._location, save.step, state, self._group, self._plans)
        elif not kept:
            return None
        complete = time.monotonic()
        if save.location:
            self._cadence.exchange(complete - save.began, self._group)
        if save.location and dist.get_rank() == 0:
            self._prune(save.step)
        return complete

    def _keep_on_nodes(self, save: _Save, state: StateDict) -> bool:
        """Return whether the nodes keep a state. If they do not, the run continues, and is told once."""
        if not (save.to_memory and self._memory):
            return False
        try:
            self._memory.save(save.step, state)
        except NotKept as error:
            if self._nodes_keep:
                self._failed.append(FailedSave(save.step, str(error), 0, self._settings.failures))
            self._nodes_keep = False
        else:
            self._nodes_keep = True
        return self._nodes_keep

    def _prune(self, step: int) -> None:
        """Delete checkpoints that are not to be kept. A failure costs storage, and no checkpoint."""
        keep, keep_every = self._settings.keep, self._settings.keep_every
        self._sound.add(step)
        self._damaged.discard(step)
        try:
            # A damaged checkpoint takes no place among those that are kept.
            self._damaged = stored.newest_damaged(self._location, keep, self._sound, self._damaged)
            stored.prune(self._location, keep, keep_every, self._damaged)
        except (UserError, OSError) as error:
            reason = f"{self._location}: old checkpoints cannot be deleted: {error}"
            self._failed.append(FailedSave(step, reason, self._failures, self._settings.failures))

    def _busy_on_any_rank(self) -> bool:
        busy = torch.tensor(float(self._under_way is not None and not self._under_way.written.done()))
        dist.all_reduce(busy)
        return bool(busy)
