"""Measure the largest tensor of a training step in each layout. torchrun starts this file.

The command line has the layouts as JSON. The output has one JSON object per layout, with the number of elements of the
largest argument of any operator on any rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tests.training.built_model import built_model
from tests.training.each_layout import measure_each, of_all_ranks
from training.config import Job
from training.observe.laps import Laps
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
    measure_each(lambda changes: {"numbers": max(of_all_ranks(largest(changes)))})
