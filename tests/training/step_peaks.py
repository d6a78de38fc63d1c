"""Started by torchrun: the peak of a rank's memory in a whole step, for every layout named on the command line.

A step is forward, backward, clipping, and the update of the weights. The second step counts, because the optimizer
makes its state in the first one. Prints one JSON object per layout: the highest peak, in bytes, of the ranks of each
pipeline stage.
"""

from __future__ import annotations

import gc
import time
import weakref
from functools import partial
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each, of_all_ranks
from training.config import Job
from training.observe.laps import Laps
from training.optim.optimizer import make_optimizer
from training.optim.optimizer import step as take_step
from training.parallel.clipping import clipping_divisor, norm_of_gradients
from training.precision.loss_scale import initial_scale
from training.step import compute_gradients

CPU = torch.device("cpu")


class PeakBytes(TorchDispatchMode):
    """Follows the memory of all tensors that operators return, and notes the highest sum after an operator."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = 0
        self._storages: dict[int, weakref.ref[torch.UntypedStorage]] = {}
        self._settled = True

    def live(self) -> int:
        """Return the bytes of all storages that still exist. FSDP frees some by making them empty."""
        return sum(storage.nbytes() for each in list(self._storages.values()) if (storage := each()) is not None)

    def follow(self, tensor: torch.Tensor) -> int:
        """Follow the memory of a tensor, and return its bytes."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            self._storages[key] = weakref.ref(storage, partial(self._forget, key))
        return storage.nbytes()

    def _forget(self, key: int, _: weakref.ref[torch.UntypedStorage]) -> None:
        self._storages.pop(key, None)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        result = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional"):
            self._settled = False
        # What aliases an argument is followed already, or is a buffer of Gloo's, which GPUs do not have.
        if func._schema.returns and not any(returned.alias_info for returned in func._schema.returns):
            new = result if isinstance(result, (tuple, list)) else (result,)
            sizes = [self.follow(each) for each in new if isinstance(each, torch.Tensor)]
            # After a small tensor, the sum is hardly higher than it was.
            if sum(sizes) > self.peak / 500:
                self._note()
        return result

    def _note(self) -> None:
        now = self.live()
        if now > self.peak and not self._settled:
            now = self._settle(now)
        self.peak = max(self.peak, now)

    def _settle(self, now: int) -> int:
        """Wait for Gloo's threads, which drop the tensors of a collective some time after its end."""
        for _ in range(4):
            time.sleep(0.0005)
            now, before = self.live(), now
            if now == before:
                break
        self._settled = True
        return now


def tensors() -> list[torch.Tensor]:
    """Return the tensors with memory of their own that Python can reach."""
    gc.collect()
    found = [thing for thing in gc.get_objects() if type(thing) in (torch.Tensor, torch.nn.Parameter)]
    return [tensor for tensor in found if tensor.device == CPU]


def peak_of(changes: dict[str, Any], vocabulary: int) -> tuple[int, int]:
    """Return the stage of this rank, and the bytes that its second step had at its peak."""
    # Those of earlier layouts, which are held so that no new tensor has the identity of one of them.
    before = tensors()
    job = Job.model_validate({"name": "peak", **changes})
    world, local = built_model(job, vocabulary, end_of_text=0)
    model = local.model
    samples = torch.randint(
        0, vocabulary, (job.batch.global_ // world.layout.dp, job.data.sequence_length + 1), dtype=torch.int64
    )
    optimizer = make_optimizer(model, job.optimizer)
    scale = initial_scale(job.precision)
    inputs = local.batch(samples)

    def step() -> None:
        compute_gradients(local, inputs, job.batch.micro, Laps(CPU), scale)
        norm = norm_of_gradients(model.parameters(), scale)
        take_step(optimizer, 1, torch.zeros(()), clipping_divisor(norm, job.clip, scale))
        optimizer.zero_grad()

    step()
    peak = PeakBytes()
    others = {id(tensor) for tensor in before}
    for tensor in tensors():
        if id(tensor) not in others:
            peak.follow(tensor)
    with peak:
        step()
    return world.mesh.get_local_rank("pp"), peak.peak


def peaks_of_stages(asked: tuple[dict[str, Any], int]) -> dict[str, list[int]]:
    """Return the highest peak of each pipeline stage, for the changes of a job and its vocabulary."""
    found = of_all_ranks(peak_of(*asked))
    stages = range(max(stage for stage, _ in found) + 1)
    return {"peaks": [max(bytes_ for at, bytes_ in found if at == stage) for stage in stages]}


if __name__ == "__main__":
    measure_each(peaks_of_stages)
