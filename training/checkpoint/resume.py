"""Where a run goes on: the newest checkpoint that can be read, in memory or in storage."""

import sys
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from training.checkpoint import stored
from training.checkpoint.agreement import Unreadable
from training.checkpoint.memory import NodeMemory
from training.checkpoint.state import Progress
from training.errors import UserError
from training.model.decoder import Decoder


class Resumed(NamedTuple):
    """The checkpoint that a run resumes from."""

    progress: Progress
    source: str
    """`memory`, or the location in storage."""


def resume(
    location: str,
    memory: NodeMemory | None,
    model: Decoder,
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
) -> Resumed | None:
    """Fills the model and the optimizer, or returns None where there is no checkpoint. Called by every rank.

    A checkpoint that is damaged is skipped by all ranks, with a warning of rank 0 that names it.

    Raises:
        UserError: none in storage can be read, or it is of another run.
    """
    in_storage = stored.complete(location)
    found = [(step, False) for step in in_storage]
    found += [(step, True) for step in memory.steps()] if memory else []
    skipped: list[str] = []
    for step, in_memory in sorted(found, reverse=True):
        try:
            if memory and in_memory:
                resumed = Resumed(memory.load(step, model, optimizer), "memory")
            else:
                progress = stored.load(location, step, model, optimizer, identity)
                resumed = Resumed(progress, stored.step_location(location, step))
        except Unreadable as error:
            skipped.append(str(error))
            if dist.get_rank() == 0:
                print(f"warning: a checkpoint is skipped: {error}", file=sys.stderr, flush=True)
            continue
        if memory:
            memory.keep_only(step if in_memory else None)
        return resumed
    if in_storage:
        tried = "; ".join(skipped)
        raise UserError(f"no checkpoint can be read: {tried}. Bring one back, or delete them to begin anew")
    if memory:
        memory.keep_only(None)
    # Looking for a checkpoint gives an optimizer a state, as if it had done a step.
    optimizer.state.clear()
    return None
