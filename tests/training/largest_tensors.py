"""Measure the largest tensor of a training step in each layout. torchrun starts this file.

The command line has the layouts as JSON. The output has one JSON object per layout, with the number of elements of the
largest argument of any operator on any rank.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests.training.built_model import built_model
from training.config import Job
from training.observe.laps import Laps
from training.parallel.world import connect, this_process
from training.step import compute_gradients

CPU = torch.device("cpu")
VOCABULARY, END_OF_TEXT = 64, 3


def largest(changes: dict[str, Any]) -> int:
    """Return the number of elements of the largest tensor on this rank in one step of a job."""
    job = Job.model_validate({"name": "largest", **changes})
    world, local = built_model(job, VOCABULARY, END_OF_TEXT)
    samples, length = job.batch.global_ // world.layout.dp, job.data.sequence_length
    tokens = torch.randint(0, VOCABULARY, (samples, length + 1), generator=torch.Generator().manual_seed(0))
    batch = local.batch(tokens)
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        compute_gradients(local, batch, job.batch.micro, Laps(CPU))
    shapes = [shape for event in recorded.events() for shape in event.input_shapes if isinstance(shape, list)]
    return max(torch.Size(shape).numel() for shape in shapes if all(isinstance(size, int) for size in shape))


if __name__ == "__main__":
    connect(this_process())
    for name, changes in json.loads(sys.argv[1]).items():
        found: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(found, largest(changes))
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps({"layout": name, "numbers": max(found)}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
