"""Orthogonalize sharded matrices. One rank, the owner, computes each matrix.

If every rank gathered every matrix, all ranks would repeat the same computation. With owners, each rank computes its
share of the matrices. For N ranks and N matrices, a rank sends and receives as many elements as 2 matrices have. The
owner gathers the whole matrix, so the result equals that of a gather on every rank to the bit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor


class Block(NamedTuple):
    """The shard of a matrix on one rank: its offsets and its sizes, in elements, by dimension."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]

    @property
    def numbers(self) -> int:
        """Return the number of elements in the block."""
        return math.prod(self.sizes)

    def of(self, whole: Tensor) -> Tensor:
        """Return the view of a whole matrix that the block covers."""
        return whole[tuple(slice(at, at + size) for at, size in zip(self.offsets, self.sizes, strict=True))]


class OwnedMatrices(NamedTuple):
    """The matrices that one rank computes: this rank's parts of them, their shape, and the blocks of all ranks."""

    part: Tensor
    shape: torch.Size
    blocks: list[Block]


def group_of(matrices: Tensor) -> dist.ProcessGroup | None:
    """Return the process group that shards a matrix, or each matrix of a stack: [..., rows, columns].

    Return None if this rank has whole matrices, as it does of a stack that is sharded between its matrices.
    """
    if not isinstance(matrices, DTensor):
        return None
    rows = matrices.ndim - 2
    divided = [number for number, each in enumerate(matrices.placements) if getattr(each, "dim", -1) >= rows]
    if not divided:
        return None
    group = _group(matrices.device_mesh, tuple(divided))
    return group if dist.get_world_size(group) > 1 else None


def _group(mesh: DeviceMesh, dimensions: tuple[int, ...]) -> dist.ProcessGroup:
    """Return the process group of mesh dimensions. Several dimensions, such as FSDP and TP, are flattened into one."""
    if len(dimensions) == 1:
        return mesh.get_group(dimensions[0])
    assert mesh.mesh_dim_names is not None
    return mesh[tuple(mesh.mesh_dim_names[each] for each in dimensions)]._flatten().get_group()


def blocks_of(matrices: Sequence[Tensor], group: dist.ProcessGroup) -> list[list[Block]]:
    """Return the block of each rank for each matrix.

    This is a collective call: every rank of the group passes the same matrices in the same order.
    """
    own = []
    for matrix in matrices:
        assert isinstance(matrix, DTensor)
        # DTensor computes the offsets for distributed checkpoints by the same method.
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


def rounds_of_stacks(stacks: Sequence[Tensor], group: dist.ProcessGroup) -> Iterator[list[Tensor]]:
    """Yield stacks of one shape, as many at a time as have a matrix for each rank. Every rank gets the same.

    One stack at a time is enough if a rank has parts of as many matrices as there are ranks.
    """
    own = max(1, len(stacks[0].to_local() if isinstance(stacks[0], DTensor) else stacks[0]))
    at_once = -(-dist.get_world_size(group) // own)
    for first in range(0, len(stacks), at_once):
        yield list(stacks[first : first + at_once])


def shares_of(parts: Tensor, shape: torch.Size, blocks: Sequence[Block]) -> list[OwnedMatrices]:
    """Divide matrices of one shape among the ranks that have parts of them.

    Args:
        parts: this rank's part of each matrix: [matrices, own rows, own columns]. All ranks have parts of the same
            matrices.
        shape: the shape of a stack of such matrices: [..., rows, columns].
        blocks: the block of each rank in the stack.

    Returns one share for each rank, or fewer if there are fewer matrices.
    """
    shares = []
    for share in parts.tensor_split(len(blocks)):
        if len(share):
            own = [Block((0, *each.offsets[1:]), (len(share), *each.sizes[1:])) for each in blocks]
            shares.append(OwnedMatrices(share, torch.Size((len(share), *shape[1:])), own))
    return shares


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
    """Assemble a matrix of the given shape from `received`, the concatenation of its flattened blocks."""
    if _are_rows(blocks, shape):
        return received.view(shape)
    whole = received.new_empty(shape)
    for block, numbers in zip(blocks, torch.split(received, [block.numbers for block in blocks]), strict=True):
        block.of(whole).copy_(numbers.view(block.sizes))
    return whole


def _divided(whole: Tensor, blocks: Sequence[Block]) -> Tensor:
    """Flatten the blocks of a matrix and concatenate them in the order of the ranks."""
    if _are_rows(blocks, whole.shape):
        return whole.contiguous().view(-1)
    return torch.cat([block.of(whole).flatten() for block in blocks])


def _are_rows(blocks: Sequence[Block], shape: torch.Size) -> bool:
    """Return whether the blocks are consecutive whole rows. The matrix is then the concatenation, without a copy."""
    own = [block for block in blocks if block.numbers]
    in_order = all(one.offsets[0] + one.sizes[0] == other.offsets[0] for one, other in pairwise(own))
    return in_order and all(block.sizes[1:] == tuple(shape[1:]) for block in own)
