"""How long a rank waits for the other ranks in a collective before it gives up."""

from datetime import timedelta

import torch.distributed as dist
from torch.distributed import distributed_c10d

from training.config.hang_detection import HangDetection
from training.parallel.world import World


def allow_for_steps(world: World, settings: HangDetection) -> None:
    """Let later collectives of training fail after the time that the job allows in steps. Every rank calls this.

    The group in which checkpoints are coordinated is not changed: a checkpoint can take longer than a step.
    """
    _allow(world, settings.collective_timeout_seconds)


def allow_around_steps(world: World, settings: HangDetection) -> None:
    """Let later collectives of training fail after the time that the job allows before and after steps.

    Ranks load, compile, and end at different speeds.
    """
    _allow(world, max(settings.collective_timeout_seconds, settings.other_seconds))


def _allow(world: World, seconds: float) -> None:
    for group in _groups(world):
        # The function has no public name. torchtitan's set_pg_timeouts calls it as well.
        distributed_c10d._set_pg_timeout(timedelta(seconds=seconds), group)


def _groups(world: World) -> set[dist.ProcessGroup]:
    """Return the groups of this rank that training uses."""
    assert dist.group.WORLD is not None
    groups = {dist.group.WORLD, *world.mesh.get_all_groups()}
    if world.context is not None:
        groups.add(world.context)
    if world.experts is not None:
        groups.update(world.experts.get_all_groups())
    return groups
