"""Started by torchrun: compare the replicas of several layouts and optimizers after three steps.

The program prints one JSON object for each job. Its keys `before` and `after` have the comparison before and after the
last bit of a weight of rank 1 flips: null, or the ranks and tensors that differ.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from tests.training.built_model import built_model
from tests.training.each_layout import of_all_ranks
from tests.training.layout_gradients import CPU, END_OF_TEXT, VOCABULARY, batch, job_of, small
from training.model.decoder import Decoder
from training.observe.laps import Laps
from training.optim.optimizer import make_optimizer
from training.optim.optimizer import step as take_step
from training.parallel.clipping import clipping_divisor, norm_of_gradients
from training.parallel.world import World, connect, meet, this_process
from training.replicas import compare
from training.step import compute_gradients

HSDP: dict[str, Any] = {"parallel": {"dp_shard": 2, "dp_replicate": 2}}
OPTIMIZERS = ({"name": "adamw"}, {"name": "adamw", "state": "bf16"}, {"name": "adamw-8bit"}, {"name": "muon"})
JOBS: tuple[dict[str, Any], ...] = (
    *({"optimizer": optimizer, **HSDP} for optimizer in OPTIMIZERS),
    {"parallel": {"dp_shard": 1, "dp_replicate": 2, "tp": 2}},
    {"parallel": {"dp_shard": 2, "dp_replicate": 2, "ep": 2}, "variant": {"experts": 4}},
)


def trained(changes: dict[str, Any]) -> tuple[Decoder, World]:
    """Return the model of a job after three steps."""
    job = job_of(changes)
    world, local = built_model(job, VOCABULARY, END_OF_TEXT, small(job))
    model = local.model
    optimizer = make_optimizer(model, job.optimizer)
    for step in range(1, 4):
        tokens = batch().chunk(world.layout.dp)[world.data_rank]
        compute_gradients(local, local.batch(tokens), job.batch.micro, Laps(CPU))
        take_step(optimizer, step, torch.zeros(()), clipping_divisor(norm_of_gradients(model.parameters()), job.clip))
        optimizer.zero_grad()
    return model, world


def flip(model: Decoder) -> None:
    weight = next(model.parameters())
    part = weight.to_local() if isinstance(weight, DTensor) else weight
    part.detach().view(torch.int32).view(-1)[0] ^= 1


def compared(model: Decoder, world: World) -> list[Any] | None:
    """Return what all ranks found together, or None."""
    return [asdict(each) for each in of_all_ranks(compare(model, world)) if each is not None] or None


if __name__ == "__main__":
    connect(this_process(), meet())
    # The 8-bit optimizer would compile its step, which takes a minute and does not change whether replicas differ.
    torch.compiler.set_stance("force_eager")
    for changes in JOBS:
        model, world = trained(changes)
        before = compared(model, world)
        if dist.get_rank() == 1:
            flip(model)
        after = compared(model, world)
        if dist.get_rank() == 0:
            print("RESULT " + json.dumps({"job": changes, "before": before, "after": after}), flush=True)
    dist.barrier()
    dist.destroy_process_group()
