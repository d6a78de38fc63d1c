"""Orthogonalize matrices that ranks divide among them, each on one rank that owns it.

If every rank gathered every matrix, all would compute the same. With an owner for each, a rank computes its share of
the matrices, and receives and sends as much as two of them for as many matrices as there are ranks. The owner has the
whole matrix, so the result is the same to the bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate


class Block(NamedTuple):
    """The part of a matrix that a rank has: where it begins and how long it is in each dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """Return how many numbers the block has."""
        return math.prod(self.sizes)

    def of(self, whole: Tensor) -> Tensor:
        """Return the block's part of a whole matrix, as a view."""
        return whole[tuple(slice(at, at + size) for at, size in zip(self.offsets, self.sizes, strict=True))]


def group_of(matrix: Tensor) -> dist.ProcessGroup | None:
    """Return the ranks that divide a matrix among them, or None if this rank has all of it."""
    if not isinstance(matrix, DTensor):
        return None
    divided = [number for number, each in enumerate(matrix.placements) if not isinstance(each, Replicate)]
    if not divided:
        return None
    group = _group(matrix.device_mesh, tuple(divided))
    return group if dist.get_world_size(group) > 1 else None


def _group(mesh: DeviceMesh, dimensions: tuple[int, ...]) -> dist.ProcessGroup:
    """Return the group of one dimension, or of several, such as those of FSDP and tensor parallelism."""
    if len(dimensions) == 1:
        return mesh.get_group(dimensions[0])
    assert mesh.mesh_dim_names is not None
    return mesh[tuple(mesh.mesh_dim_names[each] for each in dimensions)]._flatten().get_group()


def blocks_of(matrices: Sequence[Tensor], group: dist.ProcessGroup) -> list[list[Block]]:
    """Return the block of each rank, by matrix. Every rank of the group calls this with the same matrices."""
    own = []
    for matrix in matrices:
        assert isinstance(matrix, DTensor)
        # The parts that a rank has are known where a checkpoint is written.
        (chunk,) = matrix.__create_chunk_list__()  # type: ignore[no-untyped-call]
        sizes = tuple(matrix.to_local().shape)
        own.append(Block(tuple(chunk.offsets) if math.prod(sizes) else (0,) * len(sizes), sizes))
    by_rank: list[list[Block]] = [[]] * dist.get_world_size(group)
    dist.all_gather_object(by_rank, own, group)
    return [list(blocks) for blocks in zip(*by_rank, strict=True)]


def rounds(matrices: Sequence[Tensor], group: dist.ProcessGroup) -> Iterator[list[Tensor]]:
    """Yield the matrices, as many at a time as there are ranks, and of similar size. Every rank gets the same."""
    ranks = dist.get_world_size(group)
    by_size = sorted(matrices, key=lambda matrix: matrix.numel(), reverse=True)
    for first in range(0, len(by_size), ranks):
        yield by_size[first : first + ranks]


def computed_by_owners(
    parts: list[Tensor],
    shapes: Sequence[torch.Size],
    blocks: Sequence[Sequence[Block]],
    compute: Callable[[Tensor], Tensor],
    group: dist.ProcessGroup,
) -> list[Tensor]:
    """Return this rank's block of `compute(matrix)` for each matrix.

    Args:
        parts: this rank's blocks of the matrices, in the order of their owners, at most one per rank. They are removed.
        shapes: the shapes of the whole matrices.
        blocks: the block of each rank, by matrix.
        compute: a function of a whole matrix that keeps its shape and type.
        group: the ranks.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    part_shapes = [part.shape for part in parts]
    sent = torch.cat([part.flatten() for part in parts])
    to_owners = [part.numel() for part in parts] + [0] * (ranks - len(parts))
    parts.clear()
    owned = blocks[rank] if rank < len(blocks) else []
    from_others = [block.numbers for block in owned] or [0] * ranks
    received = sent.new_empty(sum(from_others))
    dist.all_to_all_single(received, sent, from_others, to_owners, group=group)
    if owned:
        whole = _joined(received, owned, shapes[rank])
        del received
        received = _divided(compute(whole), owned)
        del whole
    dist.all_to_all_single(sent, received, to_owners, from_others, group=group)
    returned = torch.split(sent, to_owners[: len(shapes)])
    return [numbers.view(shape) for numbers, shape in zip(returned, part_shapes, strict=True)]


def _joined(received: Tensor, blocks: Sequence[Block], shape: torch.Size) -> Tensor:
    """Return the matrix of blocks that follow each other in `received`."""
    if _are_rows(blocks, shape):
        return received.view(shape)
    whole = received.new_empty(shape)
    for block, numbers in zip(blocks, torch.split(received, [block.numbers for block in blocks]), strict=True):
        block.of(whole).copy_(numbers.view(block.sizes))
    return whole


def _divided(whole: Tensor, blocks: Sequence[Block]) -> Tensor:
    """Return the blocks of a matrix, one after the other."""
    if _are_rows(blocks, whole.shape):
        return whole.contiguous().view(-1)
    return torch.cat([block.of(whole).flatten() for block in blocks])


def _are_rows(blocks: Sequence[Block], shape: torch.Size) -> bool:
    """Return whether the blocks are whole rows in order, so that they follow each other in the matrix as well."""
    own = [block for block in blocks if block.numbers]
    in_order = all(one.offsets[0] + one.sizes[0] == other.offsets[0] for one, other in pairwise(own))
    return in_order and all(block.sizes[1:] == tuple(shape[1:]) for block in own)
