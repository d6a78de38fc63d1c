"""Started by torchrun: how many bytes of gradients a rank holds between two micro-batches, per byte of the model.

Takes jobs by name, as layout_gradients.py does, and prints one JSON object for each.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import torch
import torch.distributed as dist

from tests.training.layout_gradients import CPU, END_OF_TEXT, VOCABULARY, batch, job_of, small
from training.model.decoder import Decoder, initialize
from training.observe.laps import Laps
from training.parallel.local_model import local_model
from training.parallel.world import join
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


def held(changes: dict[str, Any]) -> float:
    job = job_of(changes)
    world = join(job.layout(dist.get_world_size()), CPU)
    with torch.device("meta"):
        model = Decoder(small(job), VOCABULARY)
    size = 4 * sum(parameter.numel() for parameter in model.parameters())
    local = local_model(model, job, world, END_OF_TEXT)
    initialize(model, job.seed)
    tokens = local.batch(batch().chunk(world.layout.dp)[world.data_rank])
    before, laps = live_bytes(), LiveBytes()
    accumulate(local, tokens, job.batch.micro, laps)
    assert len(laps.noted) == 2, "a first and a last micro-batch"
    return (laps.noted[0] - before) / size


if __name__ == "__main__":
    dist.init_process_group("gloo")
    for name, changes in json.loads(sys.argv[1]).items():
        share = held(changes)
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps({"layout": name, "held": share}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
