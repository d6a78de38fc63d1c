"""Checkpoints in the memory or on the local disks of the nodes, so that a restart does not have to read storage.

Every rank keeps its part of the state as a file of its node, and sends a copy to the rank with the same local rank on
the next node. The state therefore survives the end of its processes, which torchrun restarts, and the loss of a node.
On a local disk, it also survives the loss of the nodes' memory. A step is complete when every rank's part is on some
node. A part that is missing on the node that needs it is fetched from a node that has it. The checksum in the file's
name verifies what is read.

The parts belong to one run in one layout: a job that resumes in another layout reads storage.
"""

import hashlib
import json
import os
import re
import shutil
import socket
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_leaves, tree_map_only

from training.checkpoint.agreement import Unreadable, agree
from training.checkpoint.node_directory import create, is_own, node_directory, remove_forgotten
from training.checkpoint.state import Progress, StateDict, fill, progress_in, tensors_of
from training.checkpoint.transfer import allocate, transfer
from training.errors import UserError
from training.model.decoder import Decoder

STEPS = 2
"""Number of steps kept at the same time: the newest complete one, and one before it or one that is being written."""

FREE_SHARE_OF_DISK = 0.2
"""Share of a local disk that stays free. Below 10 %, the kubelet evicts pods, and below 5 %, Slurm drains the node.

https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go (read 2026-11-29), and
lifecycle_scripts/slurm/node_checks.py.
"""

_BYTES_AT_ONCE = 16 * 2**20
_STEP = re.compile(r"step-(\d{8})")
_PART = re.compile(r"rank-(\d{5})\.[0-9a-f]{8}")


class Part(NamedTuple):
    """The file of one rank's state. Its name contains the rank and the checksum."""

    name: str
    bytes: int


Holdings = dict[int, dict[int, Part]]
"""The parts on a node, by step and rank."""


class NotKept(UserError):
    """The nodes cannot keep a checkpoint, for example because a disk is full. Checkpoints in storage do not need it."""


class NodeMemory:
    """The parts of one job, in one layout, on this node. Every rank of the job calls the methods.

    `location` is the location of the job's checkpoints in storage. It distinguishes jobs. `identity` and `layout` are
    what must not change between a save and a resume. `group` is the group of all ranks over gloo. The parts are in
    memory, or `on_disk`.
    """

    def __init__(
        self,
        location: str,
        identity: dict[str, Any],
        layout: dict[str, Any],
        group: dist.ProcessGroup,
        on_disk: bool = False,
    ) -> None:
        self.source = "disk" if on_disk else "memory"
        self._root = node_directory(on_disk)
        job = (self._root or Path("/nonexistent")) / _digest(location)
        self._directory = job / _digest(json.dumps([identity, layout], sort_keys=True))
        self._group, self._identity = group, identity
        self._rank, self._ranks = dist.get_rank(group), dist.get_world_size(group)
        self._of_node = int(os.environ.get("LOCAL_WORLD_SIZE", self._ranks))
        self._newest: int | None = None
        self._holdings: list[Holdings] = []

    def steps(self) -> list[int]:
        """Return the steps whose parts are all on some node, newest first."""
        self._holdings = [{}] * self._ranks
        dist.all_gather_object(self._holdings, self._own_holdings(), group=self._group)
        parts: dict[int, set[int]] = {}
        for holdings in self._holdings:
            for step, held in holdings.items():
                parts.setdefault(step, set()).update(held)
        return sorted((step for step, held in parts.items() if len(held) == self._ranks), reverse=True)

    def load(self, step: int, model: Decoder, optimizer: torch.optim.Optimizer) -> Progress:
        """Fill the model and the optimizer from one of `steps`.

        Raises:
            Unreadable: a part and the copy of it that would replace it are damaged, or there is no room for a fetched
                part. Raised on every rank, before anything is filled.
        """
        path = self._part(step)
        lacking = [False] * self._ranks
        dist.all_gather_object(lacking, path is None, group=self._group)
        if any(lacking):
            path = self._fetch(step, lacking) or path
        problem = None if path else self._damage(step, self._rank)
        agree(problem, self._group, Unreadable)
        assert path is not None
        saved = torch.load(path, map_location="cpu", weights_only=True)
        progress = progress_in(saved["run"], self._identity, str(path))
        fill(model, optimizer, _filled(tensors_of(model, optimizer), saved))
        return progress

    def save(self, step: int, state: StateDict) -> None:
        """Keep the state of a step, which is in host memory, and delete all older steps but the newest one.

        Raises:
            NotKept: a node cannot keep its parts. Raised on every rank. Nothing of the step is left.
        """
        self._forget_all_but(self._newest)
        local = tree_map_only(DTensor, lambda tensor: tensor.to_local(), state)
        try:
            # Check before any rank begins to fill memory that the processes themselves may need.
            agree(self._create() or self._shortage(local), self._group, NotKept)
            part = self._write(step, local)
            if self._ranks > self._of_node:
                self._copy_to_the_next_node(step, part)
        except NotKept:
            self._forget_all_but(self._newest)
            raise
        self._newest = step

    def keep_only(self, step: int | None) -> None:
        """Delete the steps and layouts that the run did not resume from. Training will write those steps again."""
        self._newest = step
        self._forget_all_but(step)
        if self._root and self._deletes_for_node:
            for other in self._directory.parent.glob("*"):
                if other != self._directory:
                    shutil.rmtree(other, ignore_errors=True)
            remove_forgotten(self._root, self._directory.parent)

    def remove(self) -> None:
        """Delete all checkpoints of this job on the nodes."""
        dist.barrier(group=self._group)
        if self._deletes_for_node:
            shutil.rmtree(self._directory.parent, ignore_errors=True)

    @property
    def _deletes_for_node(self) -> bool:
        return self._rank % self._of_node == 0 and is_own(self._root)

    def _step_directory(self, step: int) -> Path:
        return self._directory / f"step-{step:08d}"

    def _own_holdings(self) -> Holdings:
        holdings: Holdings = {}
        for directory in self._directory.glob("step-*") if is_own(self._root) else ():
            if match := _STEP.fullmatch(directory.name):
                files = [(_PART.fullmatch(file.name), file) for file in directory.iterdir()]
                holdings[int(match[1])] = {
                    int(named[1]): Part(file.name, file.stat().st_size) for named, file in files if named
                }
        return holdings

    def _part(self, step: int) -> Path | None:
        """Return the file of this rank's part on this node, or None if it is missing or damaged."""
        part = self._holdings[self._rank].get(step, {}).get(self._rank)
        return _verified(self._step_directory(step) / part.name) if part else None

    def _fetch(self, step: int, lacking: list[bool]) -> Path | None:
        """Send the parts that other nodes lack.

        Return this rank's part if it came whole from another node, otherwise None.
        """
        senders = {rank: self._sender(step, rank) for rank in range(self._ranks) if lacking[rank]}
        sent, received, problem = [], None, None
        for receiver, sender in senders.items():
            if sender is None:
                continue
            part = self._holdings[sender][step][receiver]
            path = self._step_directory(step) / part.name
            if self._rank == sender:
                sent.append((path, receiver))
                # A mapping of a file that the disk cannot read would end the process.
                problem = problem or (None if _verified(path) else self._damage(step, receiver))
            if self._rank == receiver:
                received = (path, sender)
                problem = problem or self._create() or _allocated(path, part.bytes)
        agree(problem, self._group, Unreadable)
        transfer(sent, received, self._group)
        return _verified(received[0]) if received else None

    def _sender(self, step: int, receiver: int) -> int | None:
        """Return a rank of another node that has a part. Different parts come from different ranks."""
        ranks = [
            rank
            for rank, holdings in enumerate(self._holdings)
            if receiver in holdings.get(step, {}) and rank // self._of_node != receiver // self._of_node
        ]
        return ranks[receiver % len(ranks)] if ranks else None

    def _create(self) -> str | None:
        """Create the directory of this user if it is missing. Return why it cannot be used, or None."""
        return self._problem(reason) if (reason := create(self._root, self.source == "disk")) else None

    def _problem(self, reason: str) -> str:
        return f"no checkpoint is kept on the nodes: {socket.gethostname()}: {reason}"

    def _damage(self, step: int, rank: int) -> str:
        return f"{self._step_directory(step)}: what there is of rank {rank} is damaged"

    def _write(self, step: int, local: StateDict) -> Part:
        """Write this rank's part, and return it. All ranks have written theirs then.

        Raises:
            NotKept: a rank could not. Raised on every rank.
        """
        unfinished = self._step_directory(step) / f"rank-{self._rank:05d}.unfinished"
        part, problem = None, None
        try:
            unfinished.parent.mkdir(parents=True, exist_ok=True)
            torch.save(local, unfinished)
            part = Part(f"rank-{self._rank:05d}.{_crc32(unfinished)}", unfinished.stat().st_size)
            _finish(unfinished, part)
        except (OSError, RuntimeError) as error:
            problem = self._problem(f"{unfinished}: it cannot be written: {error}. {self._remedy}")
        agree(problem, self._group, NotKept)
        assert part is not None
        return part

    def _copy_to_the_next_node(self, step: int, part: Part) -> None:
        parts = [part] * self._ranks
        dist.all_gather_object(parts, part, group=self._group)
        after, before = ((self._rank + distance) % self._ranks for distance in (self._of_node, -self._of_node))
        unfinished = self._step_directory(step) / f"rank-{before:05d}.unfinished"
        problem = _allocated(unfinished, parts[before].bytes)
        agree(self._problem(f"{problem}. {self._remedy}") if problem else None, self._group, NotKept)
        transfer([(self._step_directory(step) / part.name, after)], (unfinished, before), self._group)
        problem = None
        try:
            _finish(unfinished, parts[before])
        except OSError as error:
            problem = self._problem(f"{unfinished}: it cannot be written: {error}. {self._remedy}")
        agree(problem, self._group, NotKept)

    def _forget_all_but(self, step: int | None) -> None:
        dist.barrier(group=self._group)
        if self._deletes_for_node:
            for directory in self._directory.glob("step-*"):
                if step is None or directory != self._step_directory(step):
                    shutil.rmtree(directory, ignore_errors=True)
        dist.barrier(group=self._group)

    def _shortage(self, local: StateDict) -> str | None:
        """Return an error message with a remedy if this node lacks room for all its ranks, otherwise None."""
        assert self._root is not None
        copies = 2 if self._ranks > self._of_node else 1
        part = sum(leaf.nbytes for leaf in tree_leaves(local) if isinstance(leaf, torch.Tensor))
        # The newest step is there already, and stays until this one is complete.
        needed = part * self._of_node * copies * (STEPS if self._newest is None else 1)
        usage = shutil.disk_usage(self._root)
        reserved = int(usage.total * FREE_SHARE_OF_DISK) if self.source == "disk" else 0
        if needed <= usage.free - reserved:
            return None
        stays = f", of which {reserved / 2**30:.2f} GiB stay free" if reserved else ""
        return self._problem(
            f"{self._root}: checkpoints take {needed / 2**30:.2f} GiB of a node, and {usage.free / 2**30:.2f} GiB are "
            f"free{stays}. {self._remedy}"
        )

    @property
    def _remedy(self) -> str:
        if self.source == "disk":
            return "Delete files on the disk, or leave checkpoint.local_disk out"
        return (
            "Give the node a larger /dev/shm, name another directory in TRAINWAY_MEMORY, set checkpoint.local_disk, or "
            "leave checkpoint.memory_every out"
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _allocated(path: Path, length: int) -> str | None:
    """Allocate a file for another node's part. Return the problem, or None."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        allocate(path, length)
    except OSError as error:
        return f"{path}: there is no room for the part of another node: {error.strerror}"
    return None


def _finish(unfinished: Path, part: Part) -> None:
    """Rename a completely written file to the name of its part, once it is on its disk."""
    _synchronize(unfinished)
    unfinished.rename(unfinished.with_name(part.name))
    _synchronize(unfinished.parent)


def _synchronize(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _verified(path: Path) -> Path | None:
    """Return the file if its checksum matches its name, otherwise None."""
    try:
        return path if path.stat().st_size > 0 and _crc32(path) == path.suffix.removeprefix(".") else None
    except OSError:
        return None


def _crc32(path: Path) -> str:
    """Return the checksum of a file, as eight hexadecimal digits.

    It reads the file, because a mapping of a file that the disk cannot read would end the process.
    """
    found = 0
    with path.open("rb") as file:
        while content := file.read(_BYTES_AT_ONCE):
            found = zlib.crc32(content, found)
    return f"{found:08x}"


def _filled(state: Any, saved: Any) -> Any:
    """Return `state` with the values of `saved`, whose tensors are the parts of this rank."""
    if isinstance(state, DTensor):
        state.to_local().copy_(saved)
        return state
    if isinstance(state, dict):
        return {key: _filled(value, saved[key]) for key, value in state.items()}
    if isinstance(state, list):
        return [_filled(value, other) for value, other in zip(state, saved, strict=True)]
    return saved
