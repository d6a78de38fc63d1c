"""Resume a run from its newest readable checkpoint, on the nodes or in storage."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

from training.checkpoint import stored
from training.checkpoint.agreement import Unreadable, from_rank_0
from training.checkpoint.memory import NodeMemory
from training.checkpoint.state import Progress
from training.errors import UserError
from training.hosts.run_record import ExpectedCheckpoints, expected_in
from training.model.decoder import Decoder
from training.model.finite import all_finite


class Resumed(NamedTuple):
    """The checkpoint that a run resumes from."""

    progress: Progress
    source: str
    """`memory` or `disk` of the nodes, or the location of the checkpoint in storage."""
    damaged: tuple[int, ...] = ()
    """Steps of the newer checkpoints in storage that cannot be read."""


def resume(
    location: str,
    memory: NodeMemory | None,
    model: Decoder,
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
    run: Path | None = None,
    keep: int = 1,
) -> Resumed | None:
    """Fill the model and the optimizer, or return None if there is no checkpoint. Every rank calls this.

    All ranks skip a checkpoint that is damaged or has weights that are not finite. Rank 0 prints a warning that names
    it. `run` is the directory with the record of a run that keeps its newest `keep` checkpoints. Without it, nothing is
    expected.

    Raises:
        UserError: no checkpoint in storage can be read, it belongs to another run, or those of this run are gone.
    """
    # Other hosts may not have the record of the run.
    expected = from_rank_0(lambda: _expected(location, run, keep))
    if expected.begins_anew:
        expected.check_empty()
        if memory:
            memory.keep_only(None)
        return None
    found = [(step, False) for step in expected.found]
    found += [(step, True) for step in memory.steps()] if memory else []
    skipped: list[str] = []
    damaged: list[int] = []
    for step, in_memory in sorted(found, reverse=True):
        expected.check(step)
        try:
            resumed = _load(step, location, memory if in_memory else None, model, optimizer, identity)
        except Unreadable as error:
            skipped.append(str(error))
            damaged += [] if in_memory else [step]
            _warn(f"a checkpoint is skipped: {error}")
            continue
        if memory:
            memory.keep_only(step if in_memory else None)
        if older := expected.older(step):
            _warn(older)
        return resumed._replace(damaged=tuple(damaged))
    if expected.found:
        tried = "; ".join(skipped)
        raise UserError(
            f"no checkpoint can be read: {tried}. Bring one back, or move them away and begin anew with "
            "`trainway resume RUN --from-scratch`"
        )
    expected.check(None)
    if memory:
        memory.keep_only(None)
    # The search for a checkpoint fills the optimizer's state, as if it had done a step.
    optimizer.state.clear()
    return None


def _expected(location: str, run: Path | None, keep: int) -> ExpectedCheckpoints:
    begun, complete = stored.steps(location)
    if run is None:
        return ExpectedCheckpoints("", location, found=tuple(complete))
    return expected_in(location, run, keep, complete, begun)


def _load(
    step: int,
    location: str,
    memory: NodeMemory | None,
    model: Decoder,
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
) -> Resumed:
    """Load one checkpoint into the model and the optimizer: from the nodes with `memory`, and otherwise from storage.

    Raises:
        Unreadable: the checkpoint is damaged, or its weights are not finite. Raised on every rank.
        UserError: the checkpoint belongs to another run.
    """
    if memory:
        resumed = Resumed(memory.load(step, model, optimizer), memory.source)
    else:
        progress = stored.load(location, step, model, optimizer, identity)
        resumed = Resumed(progress, stored.step_location(location, step))
    if not all_finite(model):
        raise Unreadable(f"{resumed.source}, step {step}: its weights are not finite")
    return resumed


def _warn(warning: str) -> None:
    """Print a warning on rank 0."""
    if dist.get_rank() == 0:
        print(f"warning: {warning}", file=sys.stderr, flush=True)
