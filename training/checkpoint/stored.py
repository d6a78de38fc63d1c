"""Checkpoints in storage, with torch.distributed.checkpoint.

A checkpoint is the directory `step-00000042` below the job's checkpoint location. PyTorch writes its `.metadata` last:
a directory without one is an interrupted save, and is never resumed from. Parameters and their optimizer state go by
name, so a checkpoint can be loaded with another number of ranks.
"""

import re
from dataclasses import asdict
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import DefaultSavePlanner
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import SavePlan
from torch.distributed.checkpoint.state_dict import get_state_dict

from training.checkpoint.agreement import Unreadable, first_reason
from training.checkpoint.state import Progress, StateDict, fill, progress_in
from training.checkpoint.stores import reader, writer
from training.errors import UserError
from training.hosts import location_files
from training.model.decoder import Decoder

COMMIT = ".metadata"
_NAME = re.compile(r"step-(\d{8})/")


def step_location(location: str, step: int) -> str:
    """The resolved location of a step's checkpoint."""
    return location_files.join(location, f"step-{step:08d}")


def save(location: str, step: int, state: StateDict, group: dist.ProcessGroup | None = None) -> None:
    """Writes the checkpoint of a step; complete when this returns. Called by every rank of the group.

    Raises:
        UserError: it cannot be written; on every rank.
    """
    destination = step_location(location, step)
    planner = _Planner(destination)
    try:
        state_dict_saver.save(state, storage_writer=writer(destination), planner=planner, process_group=group)
    except CheckpointException as error:
        raise UserError(f"{destination}: the checkpoint cannot be written: {first_reason(error)}") from error


class _Planner(DefaultSavePlanner):
    """PyTorch's, which first takes back the commit of a damaged checkpoint that is written anew."""

    def __init__(self, destination: str) -> None:
        super().__init__()
        self._destination = destination

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """Plan on one rank what all ranks write, before any of them writes."""
        if COMMIT in location_files.list_files(self._destination):
            location_files.delete(self._destination, [COMMIT])
        return super().create_global_plan(all_plans)


def complete(location: str) -> list[int]:
    """The steps of the complete checkpoints, the newest first. Found by rank 0, the same on every rank."""
    found: list[list[int] | UserError] = [[]]
    if dist.get_rank() == 0:
        try:
            found = [sorted(_complete(location_files.list_files(location)), reverse=True)]
        except UserError as error:
            found = [error]
    dist.broadcast_object_list(found, src=0)
    if isinstance(found[0], UserError):
        raise found[0]
    return found[0]


def newest(location: str) -> int | None:
    """The step of the newest complete checkpoint, or None; the same on every rank."""
    return next(iter(complete(location)), None)


def load(
    location: str, step: int, model: Decoder, optimizer: torch.optim.Optimizer, identity: dict[str, Any]
) -> Progress:
    """Fills the model and the optimizer from a checkpoint. Called by every rank.

    Raises:
        Unreadable: the checkpoint is damaged; on every rank. The model and the optimizer may have parts of it.
        UserError: the checkpoint is of another run; the message says in what they differ.
    """
    source = step_location(location, step)
    _check_files(source)
    # First what is small: tensors of another model would fail to load with a less helpful error.
    run: dict[str, Any] = asdict(Progress(0, 0, 0.0)) | {"identity": ""}
    try:
        state_dict_loader.load({"run": run}, storage_reader=reader(source))
        progress = progress_in(run, identity, source)
        # PyTorch fills only the keys that it is given, so the state has to exist before it is loaded.
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments}
        state_dict_loader.load(state, storage_reader=reader(source))
    except CheckpointException as error:
        raise Unreadable(f"{source}: {first_reason(error)}") from error
    fill(model, optimizer, state)
    return progress


def prune(location: str, keep: int, keep_every: int | None = None) -> None:
    """Deletes complete checkpoints but the newest `keep` and those of every `keep_every`-th step.

    With them goes what interrupted saves before the newest left. Called by rank 0.
    """
    files = location_files.list_files(location)
    complete = sorted(_complete(files))
    kept = {*complete[-keep:], *(step for step in complete if keep_every and step % keep_every == 0)}
    for step in sorted({int(match[1]) for file in files if (match := _NAME.match(file))}):
        if step in kept or not complete or step > complete[-1]:
            continue
        names = [file.removeprefix(prefix) for file in files if file.startswith(prefix := f"step-{step:08d}/")]
        # The commit goes first, so that a deletion cut short does not leave half a checkpoint that looks complete.
        location_files.delete(step_location(location, step), sorted(names, key=lambda name: name != COMMIT))
        location_files.delete_empty(step_location(location, step))


def _complete(files: list[str]) -> list[int]:
    return [int(match[1]) for file in files if (match := _NAME.match(file)) and file[match.end() :] == COMMIT]


def _check_files(source: str) -> None:
    """Compares the files that are there with those that `.metadata` tells of, before all ranks begin to read them.

    Raises:
        Unreadable: a file is missing or too short, or `.metadata` is damaged; on every rank.
    """
    problem: list[str | None] = [None]
    if dist.get_rank() == 0:
        problem = [_damage(source)]
    dist.broadcast_object_list(problem, src=0)
    if problem[0]:
        raise Unreadable(f"{source}: {problem[0]}")


def _damage(source: str) -> str | None:
    try:
        metadata = reader(source).read_metadata()
        expected: dict[str, int] = {}
        for part in metadata.storage_data.values():
            expected[part.relative_path] = max(expected.get(part.relative_path, 0), part.offset + part.length)
        found = location_files.list_sizes(source)
    except Exception as error:  # whatever a damaged pickle makes of itself
        return f"its {COMMIT} cannot be read: {error!r}"
    for name, length in sorted(expected.items()):
        if name not in found:
            return f"{name} is missing, of {length} bytes"
        if found[name] < length:
            return f"{name} has {found[name]} bytes, {length} were written"
    return None
