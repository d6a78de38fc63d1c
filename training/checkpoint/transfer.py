"""Send files from rank to rank, from memory to memory."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor

BYTES_AT_ONCE = 256 * 2**20
"""Bytes that are sent between two ranks in one piece."""


def allocate(path: Path, length: int) -> None:
    """Create a file of some bytes, and allocate all its memory.

    Raises:
        OSError: there is not enough memory. Without the allocation, writing to a map of the file would end the process.
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, length)


def transfer(
    sent: list[tuple[Path, int]], received: tuple[Path, int] | None, group: dist.ProcessGroup | None = None
) -> None:
    """Send files to ranks, and receive one from a rank into a file of the same length, all at the same time."""
    under_way = [dist.isend(piece, rank, group=group) for path, rank in sent for piece in _pieces(path)]
    if received:
        path, rank = received
        under_way += [dist.irecv(piece, rank, group=group) for piece in _pieces(path)]
    for work in under_way:
        if work is not None:
            work.wait()


def mapped(path: Path) -> Tensor:
    """Return a file's bytes as a tensor that shares the file's memory."""
    return torch.from_file(str(path), shared=True, size=path.stat().st_size, dtype=torch.uint8)


def _pieces(path: Path) -> tuple[Tensor, ...]:
    return torch.split(mapped(path), BYTES_AT_ONCE)
