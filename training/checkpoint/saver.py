"""Checkpoints that are written while training goes on.

A thread copies the state to the host's memory and writes the copy. The copy is made while the next step computes its
gradients, which changes nothing of the state: `wait_until_copied` comes before the optimizer does. The ranks' threads
talk to each other in a group of their own, because collectives of two threads in one group would take each other's
messages.
"""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist

from training.checkpoint import stored
from training.checkpoint.agreement import agree
from training.checkpoint.copies import HostCopy
from training.checkpoint.memory import NodeMemory
from training.checkpoint.state import Progress, StateDict, state_of
from training.config import Checkpoint
from training.errors import UserError
from training.model.decoder import Decoder


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is complete."""

    step: int
    location: str | None
    """Location of the checkpoint in storage. None if the checkpoint is in memory alone."""
    seconds: float
    """That training stood still for it."""
    total_seconds: float
    """From its beginning until it was complete."""


@dataclass
class _Save:
    """A save that is under way."""

    step: int
    location: str | None
    to_memory: bool
    began: float
    copied: threading.Event = field(default_factory=threading.Event)
    written: Future[float] = field(default_factory=Future)
    """The time at which it was complete."""
    stalled: float = 0.0
    """Seconds so far."""


class Saver:
    """Saves one checkpoint at a time. The methods are called by every rank.

    `group` is all ranks over gloo, for the thread alone while training goes on. `on_failure` is called in another
    thread when a save has failed; the error is raised by the next `save` or `wait`, on every rank.
    """

    def __init__(
        self,
        location: str,
        settings: Checkpoint,
        memory: NodeMemory | None,
        device: torch.device,
        group: dist.ProcessGroup,
        on_failure: Callable[[], None],
    ) -> None:
        self._location, self._settings, self._memory = location, settings, memory
        self._group, self._on_failure = group, on_failure
        self._copy = HostCopy(device)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checkpoint")
        self._under_way: _Save | None = None
        self._complete: list[Saved] = []

    def due(self, step: int) -> bool:
        """Return whether a step is to be saved somewhere."""
        return step % self._settings.every == 0 or self._due_in_memory(step)

    def save(
        self,
        model: Decoder,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
        identity: dict[str, Any],
        last: bool = False,
    ) -> None:
        """Begins to save the state, when the save before it is complete. The `last` one goes to storage.

        Raises:
            UserError: the save before it failed, or without `checkpoint.async` this one; on every rank.
        """
        step = progress.step
        to_storage = last or step % self._settings.every == 0
        if not to_storage and self._busy_on_any_rank():
            # Skip this in-memory copy: waiting for storage would stall training.
            return
        self.wait()
        location = stored.step_location(self._location, step) if to_storage else None
        to_memory = self._due_in_memory(step) and not last
        save = _Save(step, location, to_memory, time.monotonic())
        state = state_of(model, optimizer, progress, identity)
        if self._settings.async_:
            self._copy.follow()
            save.written = self._thread.submit(self._copy_and_write, save, state)
            save.written.add_done_callback(lambda done: self._on_failure() if done.exception() else None)
        else:
            save.written.set_result(self._write(save, state))
        save.stalled = time.monotonic() - save.began
        self._under_way = save

    def wait_until_copied(self) -> None:
        """Returns when the state may change."""
        if self._under_way and self._settings.async_:
            began = time.monotonic()
            self._under_way.copied.wait()
            self._under_way.stalled += time.monotonic() - began

    def wait(self) -> None:
        """Returns when no save is under way.

        Raises:
            UserError: it failed; on every rank.
        """
        if self._under_way is None:
            return
        save, self._under_way = self._under_way, None
        began = time.monotonic()
        ended = save.written.result()
        stalled = save.stalled + time.monotonic() - began
        self._complete.append(Saved(save.step, save.location, stalled, ended - save.began))

    def complete(self) -> list[Saved]:
        """What has become complete since the last call, in order. Does not wait."""
        if self._under_way and self._under_way.written.done() and not self._under_way.written.exception():
            self.wait()
        complete, self._complete = self._complete, []
        return complete

    def close(self) -> None:
        """Ends the thread when it has written what it is at."""
        self._thread.shutdown()

    def _due_in_memory(self, step: int) -> bool:
        every = self._settings.memory_every
        return self._memory is not None and every is not None and step % every == 0

    def _copy_and_write(self, save: _Save, state: StateDict) -> float:
        problem = None
        try:
            state = self._copy.of(state)
        except (RuntimeError, MemoryError) as error:
            problem = f"the state of step {save.step} cannot be copied to the host's memory: {error}"
        finally:
            save.copied.set()
        agree(problem, self._group)
        return self._write(save, state)

    def _write(self, save: _Save, state: StateDict) -> float:
        """Writes a state; returns the time at which it was complete."""
        if save.to_memory and self._memory:
            self._memory.save(save.step, state)
        if save.location:
            stored.save(self._location, save.step, state, self._group)
        complete = time.monotonic()
        if save.location:
            agree(self._pruned(), self._group)
        return complete

    def _pruned(self) -> str | None:
        """What is wrong with deleting what is not kept."""
        if dist.get_rank() == 0:
            try:
                stored.prune(self._location, self._settings.keep, self._settings.keep_every)
            except (UserError, OSError) as error:
                return f"{self._location}: checkpoints cannot be deleted: {error}"
        return None

    def _busy_on_any_rank(self) -> bool:
        busy = torch.tensor(float(self._under_way is not None and not self._under_way.written.done()))
        dist.all_reduce(busy)
        return bool(busy)
