"""Resume a run from its newest readable checkpoint, in memory or in storage."""

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
from training.model.finite import all_finite


class Resumed(NamedTuple):
    """The checkpoint that a run resumes from."""

    progress: Progress
    source: str
    """`memory`, or the location of the checkpoint in storage."""
    damaged: tuple[int, ...] = ()
    """Steps of the newer checkpoints in storage that cannot be read."""


def resume(
    location: str,
    memory: NodeMemory | None,
    model: Decoder,
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
) -> Resumed | None:
    """Fill the model and the optimizer, or return None if there is no checkpoint. Every rank calls this.

    All ranks skip a checkpoint that is damaged or has weights that are not finite. Rank 0 prints a warning that names
    it.

    Raises:
        UserError: no checkpoint in storage can be read, or it belongs to another run.
    """
    in_storage = stored.complete(location)
    found = [(step, False) for step in in_storage]
    found += [(step, True) for step in memory.steps()] if memory else []
    skipped: list[str] = []
    damaged: list[int] = []
    for step, in_memory in sorted(found, reverse=True):
        try:
            if memory and in_memory:
                resumed = Resumed(memory.load(step, model, optimizer), "memory")
            else:
                progress = stored.load(location, step, model, optimizer, identity)
                resumed = Resumed(progress, stored.step_location(location, step))
            if not all_finite(model):
                raise Unreadable(f"{resumed.source}, step {step}: its weights are not finite")
        except Unreadable as error:
            skipped.append(str(error))
            damaged += [] if in_memory else [step]
            if dist.get_rank() == 0:
                print(f"warning: a checkpoint is skipped: {error}", file=sys.stderr, flush=True)
            continue
        if memory:
            memory.keep_only(step if in_memory else None)
        return resumed._replace(damaged=tuple(damaged))
    if in_storage:
        tried = "; ".join(skipped)
        raise UserError(f"no checkpoint can be read: {tried}. Bring one back, or delete them to begin anew")
    if memory:
        memory.keep_only(None)
    # The search for a checkpoint fills the optimizer's state, as if it had done a step.
    optimizer.state.clear()
    return None
