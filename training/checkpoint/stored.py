"""Checkpoints in storage, with torch.distributed.checkpoint.

A checkpoint is the directory `step-00000042` below the job's checkpoint location. PyTorch writes its `.metadata` last.
A directory without this file is an interrupted save, and no run resumes from it. Parameters and their optimizer state
are identified by name, so another number of ranks can load the checkpoint.
"""

import re
from collections.abc import Collection
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import state_dict_loader, state_dict_saver
from torch.distributed.checkpoint.api import CheckpointException

from training.checkpoint.agreement import Unreadable, first_reason, from_rank_0
from training.checkpoint.failures import write_failure
from training.checkpoint.metadata_file import COMMIT
from training.checkpoint.plans import KeptPlans, Planner, plans_differ
from training.checkpoint.state import Progress, StateDict, fill, progress_in, tensors_of
from training.checkpoint.stores import LoadPlanner, reader, writer
from training.errors import UserError
from training.hosts import location_files
from training.model.decoder import Decoder

_NAME = re.compile(r"step-(\d{8})/")


def step_location(location: str, step: int) -> str:
    """Return the resolved location of a step's checkpoint."""
    return location_files.join(location, f"step-{step:08d}")


def save(
    location: str, step: int, state: StateDict, group: dist.ProcessGroup | None = None, kept: KeptPlans | None = None
) -> None:
    """Write the checkpoint of a step, and return when it is complete. Every rank of the group calls this.

    `kept` are the plans of the save before, and become those of this one.

    Raises:
        StorageFailed: the checkpoint cannot be written. Raised on every rank. Nothing of it is left in storage.
    """
    destination = step_location(location, step)
    kept = kept or KeptPlans()
    planner = Planner(destination, kept)
    try:
        try:
            _write(state, destination, planner, group)
        except CheckpointException as error:
            kept.forget()
            if not plans_differ(error):
                raise
            _write(state, destination, planner, group)
    except CheckpointException as error:
        kept.forget()
        if dist.get_rank(group) == 0:
            _remove_unfinished(destination)
        raise write_failure(destination, error, planner.needed_bytes) from error


def _write(state: StateDict, destination: str, planner: Planner, group: dist.ProcessGroup | None) -> None:
    state_dict_saver.save(state, storage_writer=writer(destination), planner=planner, process_group=group)


def _remove_unfinished(destination: str) -> None:
    """Delete what an interrupted save has left, which would fill the storage that the next save needs."""
    try:
        files = location_files.list_files(destination)
        if COMMIT not in files:
            location_files.delete(destination, files)
            location_files.delete_empty(destination)
    except (UserError, OSError):
        # The save has failed already, perhaps because of the same storage. Pruning deletes these files later.
        return


def complete(location: str) -> list[int]:
    """Return the steps of the complete checkpoints, newest first. Rank 0 finds them and sends them to every rank."""
    return from_rank_0(lambda: steps(location)[1])


def steps(location: str) -> tuple[list[int], list[int]]:
    """Return the steps that have files, and those of the complete checkpoints, newest first. Rank 0 calls this."""
    files = location_files.list_files(location)
    begun = {int(match[1]) for file in files if (match := _NAME.match(file))}
    return sorted(begun, reverse=True), sorted(_complete(files), reverse=True)


def newest(location: str) -> int | None:
    """Return the step of the newest complete checkpoint, or None. The result is the same on every rank."""
    return next(iter(complete(location)), None)


def load(
    location: str, step: int, model: Decoder, optimizer: torch.optim.Optimizer, identity: dict[str, Any]
) -> Progress:
    """Fill the model and the optimizer from a checkpoint. Every rank calls this.

    Raises:
        Unreadable: the checkpoint is damaged. Raised on every rank. The model and the optimizer may be partly filled.
        UserError: the checkpoint belongs to another run. The message names the differences.
    """
    source = step_location(location, step)
    _check_files(source)
    # Load the small entries first: tensors of another model would fail to load with a less helpful error.
    run = Progress(0, 0, 0.0).as_entry()
    try:
        state_dict_loader.load({"run": run}, storage_reader=reader(source), planner=LoadPlanner())
        progress = progress_in(run, identity, source)
        # PyTorch fills only the keys that it is given, so the state has to exist before it is loaded.
        state = tensors_of(model, optimizer)
        state_dict_loader.load(state, storage_reader=reader(source), planner=LoadPlanner())
    except CheckpointException as error:
        raise Unreadable(f"{source}: {first_reason(error)}") from error
    fill(model, optimizer, state)
    return progress


def prune(location: str, keep: int, keep_every: int | None = None, damaged: Collection[int] = ()) -> None:
    """Delete complete checkpoints except the newest `keep` and those at multiples of `keep_every`.

    Also delete the `damaged` ones, and what interrupted saves left before the newest checkpoint. Rank 0 calls this.
    """
    files = location_files.list_files(location)
    complete = sorted(set(_complete(files)).difference(damaged))
    kept = {*complete[-keep:], *(step for step in complete if keep_every and step % keep_every == 0)}
    for step in sorted({int(match[1]) for file in files if (match := _NAME.match(file))}):
        if step in kept or not complete or step > complete[-1]:
            continue
        names = [file.removeprefix(prefix) for file in files if file.startswith(prefix := f"step-{step:08d}/")]
        # Delete `.metadata` first, so that an interrupted deletion does not leave half a checkpoint that looks
        # complete.
        location_files.delete(step_location(location, step), sorted(names, key=lambda name: name != COMMIT))
        location_files.delete_empty(step_location(location, step))


def newest_damaged(location: str, keep: int, sound: Collection[int], damaged: Collection[int]) -> set[int]:
    """Return the damaged steps among the newest complete ones, which end when `keep` of them are not damaged.

    `sound` and `damaged` are steps that are known. Of the others, the files are compared with `.metadata`. Rank 0 calls
    this.
    """
    found, others = set(damaged), 0
    for step in sorted(_complete(location_files.list_files(location)), reverse=True):
        if others == keep:
            break
        if step not in sound and step not in found and _damage(step_location(location, step)):
            found.add(step)
        others += step not in found
    return found


def _complete(files: list[str]) -> list[int]:
    return [int(match[1]) for file in files if (match := _NAME.match(file)) and file[match.end() :] == COMMIT]


def _check_files(source: str) -> None:
    """Compare the files of a checkpoint with those that `.metadata` lists, before all ranks begin to read them.

    Raises:
        Unreadable: a file is missing or too short, or `.metadata` is damaged. Raised on every rank.
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
    except Exception as error:  # a damaged pickle can raise any exception
        return f"its {COMMIT} cannot be read: {error!r}"
    for name, length in sorted(expected.items()):
        if name not in found:
            return f"{name} is missing, of {length} bytes"
        if found[name] < length:
            return f"{name} has {found[name]} bytes, {length} were written"
    return None
