"""Watch for ranks that slow down the others. In a synchronous run, one slow rank slows all ranks.

Each rank measures the work that it does without the others: the wait for data, and one of its layers (see
`layer_times.py`). After every STEPS_OF_REPORT steps it writes the medians into the store of the rendezvous, in the
thread of the watchdog's heartbeats. Rank 0 reads the reports of all ranks at most every SECONDS_BETWEEN_REPORTS, and
compares them (see `stragglers.py`). No step waits for the store.
"""

import os
import queue
import statistics
import time
from collections.abc import Mapping, Sequence

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import Store  # the public name is not declared as exported

from training.hosts.this_node import this_node
from training.observe.layer_times import LayerSpan, LayerTimes, layer_seconds
from training.observe.stragglers import LocalWork, Straggler, Streak, continued, named, slow_ranks

STEPS_OF_REPORT = 50
SECONDS_BETWEEN_REPORTS = 60.0
# Ranks end a step at nearly the same time, and write their reports with the next heartbeat. Rank 0 reads them after as
# many heartbeats of its own.
_BEATS_BEFORE_READING = 2
# The store answers one request after the other. One for 512 reports takes it milliseconds, and one for 16,384 a second.
_RANKS_AT_ONCE = 512


class StragglerWatch:
    """One rank's part in the search for stragglers. Rank 0 also has the result. A run of one rank has no stragglers.

    `layers` are those of this rank, which are all alike. `stage` is its stage of the pipeline.
    """

    def __init__(self, layers: Sequence[nn.Module], stage: int, device: torch.device) -> None:
        self._rank, self._ranks = dist.get_rank(), dist.get_world_size()
        self._layers = len(layers)
        self._layer = LayerTimes(layers[len(layers) // 2], device) if self._ranks > 1 else None
        self._device, self._stage = _device_name(device), stage
        self._steps: list[tuple[int, float, Mapping[str, float]]] = []
        # Passed from the training loop to the thread of the heartbeats, and the result back.
        self._work: LocalWork | None = None
        self._news = queue.SimpleQueue[list[Straggler]]()
        # Used in the thread of the heartbeats only.
        self._written: LocalWork | None = None
        self._read = time.monotonic()
        self._beats_to_wait: int | None = None
        self._streaks: dict[int, Streak] = {}

    def end_step(self) -> list[LayerSpan]:
        """Return the passes through the watched layer in this step, for `step`."""
        return self._layer.end_step() if self._layer else []

    def step(self, step: int, data_wait: float, spans: list[LayerSpan]) -> None:
        """Take the times of a step that the device has finished. `data_wait` is in seconds."""
        if self._layer is None:
            return
        # The watched layer stands for all layers, so that the wait for data has its share of the sum.
        of_layers = {phase: self._layers * seconds for phase, seconds in layer_seconds(spans).items()}
        self._steps.append((step, time.time(), {"data_wait": data_wait, **of_layers}))
        if len(self._steps) >= STEPS_OF_REPORT:
            steps, self._steps = self._steps, []
            self._work = LocalWork(
                rank=self._rank,
                host=this_node(),
                local_rank=int(os.environ.get("LOCAL_RANK", "0")),
                device=self._device,
                stage=self._stage,
                first_step=steps[0][0],
                last_step=step,
                began=steps[0][1],
                seconds=_medians([seconds for _, _, seconds in steps]),
            )

    def exchange(self, store: Store) -> None:
        """Write this rank's newest report into the store. On rank 0, also read those of all ranks if they are due.

        The thread of the heartbeats calls this after each of them.
        """
        work = self._work
        if work is not None and work is not self._written:
            store.set(_key(self._rank), work.encoded())
            self._written = work
            is_due = time.monotonic() - self._read >= SECONDS_BETWEEN_REPORTS
            if self._rank == 0 and is_due and self._beats_to_wait is None:
                self._beats_to_wait = _BEATS_BEFORE_READING
                return
        if self._beats_to_wait is not None:
            self._beats_to_wait -= 1
            if self._beats_to_wait == 0:
                self._compare(store)

    def news(self) -> list[list[Straggler]]:
        """Return the lists of stragglers since the last call, oldest first. A list replaces the one before it."""
        found = []
        while not self._news.empty():
            found.append(self._news.get_nowait())
        return found

    def _compare(self, store: Store) -> None:
        self._read, self._beats_to_wait = time.monotonic(), None
        works = self._reports(store)
        # The report of a rank that has stopped writing is of other steps.
        works = [each for each in works if each.last_step >= works[0].first_step]
        before = named(self._streaks)
        self._streaks = continued(self._streaks, slow_ranks(works))
        after = named(self._streaks)
        if before or after:
            self._news.put(after)

    def _reports(self, store: Store) -> list[LocalWork]:
        """Return the newest reports of all ranks, in their order, or none if a rank has not written one yet."""
        works: list[LocalWork] = []
        for first in range(0, self._ranks, _RANKS_AT_ONCE):
            keys = [_key(rank) for rank in range(first, min(first + _RANKS_AT_ONCE, self._ranks))]
            # `multi_get` waits for keys that do not exist.
            if not store.check(keys):
                return []
            works += [LocalWork.decoded(value) for value in store.multi_get(keys)]
        return works


def _medians(steps: list[Mapping[str, float]]) -> dict[str, float]:
    return {phase: statistics.median(step[phase] for step in steps) for phase in steps[0]}


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _key(rank: int) -> str:
    return f"trainway/straggler/{rank}"
