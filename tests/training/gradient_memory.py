"""Started by torchrun: how many bytes of gradients a rank holds between two micro-batches, per byte of the model.

Also counts how often a rank reduces and scatters gradients in a micro-batch, and gathers weights.

Takes jobs by name, as layout_gradients.py does, and prints one JSON object for each.
"""

from __future__ import annotations

import gc
import time
from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each
from tests.training.layout_gradients import CPU, END_OF_TEXT, VOCABULARY, batch, job_of, small
from training.observe.laps import Laps
from training.step import accumulate


def live_bytes() -> int:
    """Count the bytes of all tensors that Python can reach, each storage once."""
    gc.collect()
    tensors = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter)]
    storages = [tensor.untyped_storage() for tensor in tensors if tensor.device.type == "cpu"]
    return sum({storage._cdata: storage.nbytes() for storage in storages}.values())


class LiveBytes(Laps):
    """Laps that note the live bytes after every backward pass."""

    def __init__(self) -> None:
        super().__init__(CPU)
        self.noted: list[int] = []

    def lap(self, name: str) -> None:
        if name == "backward":
            # Gloo's threads drop the tensors of a collective some time after its end.
            counts = []
            for _ in range(5):
                counts.append(live_bytes())
                time.sleep(0.05)
            self.noted.append(min(counts))


class Collectives(TorchDispatchMode):
    """Counts the calls of each collective operator, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.counts[func.__name__] += 1
        return func(*args, **(kwargs or {}))


def measured(changes: dict[str, Any]) -> dict[str, float]:
    job = job_of(changes)
    world, local = built_model(job, VOCABULARY, END_OF_TEXT, small(job))
    size = 4 * sum(parameter.numel() for parameter in local.model.parameters())
    tokens = local.batch(batch().chunk(world.layout.dp)[world.data_rank])
    before, laps = live_bytes(), LiveBytes()
    with Collectives() as counted:
        accumulate(local, tokens, job.batch.micro, laps)
    assert len(laps.noted) == 2, "a first and a last micro-batch"
    return {
        "held": (laps.noted[0] - before) / size,
        "reductions": counted.counts["_reduce_scatter_base_.default"] / len(laps.noted),
        "gathers": counted.counts["_allgather_base_.default"] / len(laps.noted),
    }


if __name__ == "__main__":
    measure_each(measured)
