"""Count the matrix products of the output projection in a training step of each layout. torchrun starts this file.

The command line has the layouts as JSON. The output has one JSON object per layout: for each rank, the number of
products that return logits, the gradient by the residual stream, and the gradient by the weights. The products of the
second step are counted, because a pipeline runs its stages once before the first step.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each, of_all_ranks
from training.config import Job
from training.observe.laps import Laps
from training.precision import float8
from training.step import compute_gradients

CPU = torch.device("cpu")
# No other dimension of the models has this size or half of it.
VOCABULARY, END_OF_TEXT = 416, 3


class Products(TorchDispatchMode):
    """Counts the products that have the vocabulary as a dimension of an argument."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._vocabulary = vocabulary

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        if func.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm):
            left, right = args[-2:]
            dimensions = {"logits": right.shape[-1], "of_hidden": left.shape[-1], "of_weight": left.shape[-2]}
            self.counts.update(kind for kind, size in dimensions.items() if size == self._vocabulary)
        return func(*args, **(kwargs or {}))


def products(changes: dict[str, Any]) -> dict[str, int]:
    """Return the number of products of each kind that this rank computes in the second step of a job."""
    job = Job.model_validate({"name": "products", **changes})
    world, local = built_model(job, VOCABULARY, END_OF_TEXT)
    layout = world.layout
    float8.after_step(local.model, job.float8)
    samples, length = job.batch.global_ // layout.dp, job.data.sequence_length
    batch = local.batch(torch.randint(0, VOCABULARY, (samples, length + 1), dtype=torch.int64))
    compute_gradients(local, batch, job.batch.micro, Laps(CPU))
    with Products(VOCABULARY // layout.tp) as counted:
        compute_gradients(local, batch, job.batch.micro, Laps(CPU))
    return {kind: counted.counts[kind] for kind in ("logits", "of_hidden", "of_weight")}


if __name__ == "__main__":
    measure_each(lambda changes: {"ranks": of_all_ranks(products(changes))})
