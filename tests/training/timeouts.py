"""The last rank calls no collective, and rank 0 waits for it.

torchrun --nproc-per-node 4 timeouts.py

Rank 0 prints the seconds that each of its groups waits around steps and in them, those of the group of checkpoints, and
the error of a collective that nobody joins.
"""

import json
from datetime import timedelta

import torch
import torch.distributed as dist

from training.config import Job
from training.parallel.timeouts import allow_around_steps, allow_for_steps
from training.parallel.world import connect, host_group, join, meet, this_process

SECONDS, OTHER_SECONDS = 5, 70


def seconds(group: dist.ProcessGroup) -> float:
    """Return how long a collective of a group waits."""
    timeout: timedelta = group._get_backend(torch.device("cpu")).options._timeout
    return timeout.total_seconds()


def main() -> None:
    """Set the timeouts as a job does, and wait for one."""
    process = this_process()
    connect(process, meet())
    job = Job.model_validate(
        {
            "name": "waits",
            "model": "8x1b",
            "data": {"train": "nowhere", "sequence_length": 32},
            "parallel": {"dp_replicate": 2, "cp": 2, "ep": 2},
            "batch": {"global": 4, "micro": 1},
            "steps": 1,
            "hang_detection": {"collective_timeout_seconds": SECONDS, "other_seconds": OTHER_SECONDS},
        }
    )
    world = join(job.layout(4), process.device)
    assert world.context and world.experts and dist.group.WORLD
    replicas, shards, experts = world.mesh["dp_replicate"], world.mesh["fsdp"], world.experts["ep"]
    groups = [dist.group.WORLD, *(mesh.get_group() for mesh in (replicas, shards, experts)), world.context]
    hosts = host_group()
    allow_around_steps(world, job.hang_detection)
    around = sorted({seconds(group) for group in groups})
    # A first step connects the ranks. Gloo's timeout does not hold for a rank that was never connected.
    dist.all_reduce(torch.zeros(()), group=world.context)
    allow_for_steps(world, job.hang_detection)
    dist.barrier(hosts)
    if process.rank == 0:
        said = ""
        try:
            dist.all_reduce(torch.zeros(()), group=world.context)
        except RuntimeError as error:
            said = str(error)
        of_steps = [seconds(group) for group in groups]
        print("WAITED " + json.dumps([around, of_steps, seconds(hosts), said]), flush=True)
    dist.barrier(hosts)


if __name__ == "__main__":
    main()
