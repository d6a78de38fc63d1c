"""Orthogonalize matrices whose rows are divided over ranks, each on one rank that owns it.

If every rank gathered every matrix, all would compute the same. With an owner for each, a rank computes its share of
the matrices, and receives and sends as much as two of them for as many matrices as there are ranks. The owner has the
whole matrix, so the result is the same to the bit.
"""

from collections.abc import Callable, Iterator, Sequence

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate, Shard


def group_of_rows(matrix: Tensor) -> dist.ProcessGroup | None:
    """Return the ranks over which the rows of a matrix are divided, or None if it is divided otherwise or not."""
    if not isinstance(matrix, DTensor):
        return None
    divided = [number for number, each in enumerate(matrix.placements) if not isinstance(each, Replicate)]
    if len(divided) != 1:
        return None
    placement = matrix.placements[divided[0]]
    # FSDP after tensor parallelism divides rows that are divided already, which is a subclass.
    if type(placement) is not Shard or placement.dim != 0:
        return None
    group = matrix.device_mesh.get_group(divided[0])
    return group if dist.get_world_size(group) > 1 else None


def rounds(matrices: Sequence[Tensor], group: dist.ProcessGroup) -> Iterator[list[Tensor]]:
    """Yield the matrices, as many at a time as there are ranks, and of similar size. Every rank gets the same."""
    ranks = dist.get_world_size(group)
    by_size = sorted(matrices, key=lambda matrix: matrix.numel(), reverse=True)
    for first in range(0, len(by_size), ranks):
        yield by_size[first : first + ranks]


def computed_by_owners(
    parts: list[Tensor], shapes: list[torch.Size], compute: Callable[[Tensor], Tensor], group: dist.ProcessGroup
) -> list[Tensor]:
    """Return this rank's rows of `compute(matrix)` for each matrix.

    Args:
        parts: this rank's rows of the matrices, in the order of their owners, at most one per rank. They are removed.
        shapes: the shapes of the whole matrices.
        compute: a function of a whole matrix that keeps its shape and type.
        group: the ranks, over which rows are divided as `torch.chunk` does.
    """
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    part_shapes = [part.shape for part in parts]
    sent = torch.cat([part.flatten() for part in parts])
    to_owners = [part.numel() for part in parts] + [0] * (ranks - len(parts))
    parts.clear()
    own = shapes[rank] if rank < len(shapes) else torch.Size([0, 1])
    from_others = [_rows(own[0], holder, ranks) * (own.numel() // max(1, own[0])) for holder in range(ranks)]
    whole = sent.new_empty(own)
    dist.all_to_all_single(whole.view(-1), sent, from_others, to_owners, group=group)
    if own.numel():
        whole = compute(whole).contiguous()
    dist.all_to_all_single(sent, whole.view(-1), to_owners, from_others, group=group)
    received = torch.split(sent, to_owners[: len(shapes)])
    return [rows.view(shape) for rows, shape in zip(received, part_shapes, strict=True)]


def _rows(rows: int, holder: int, ranks: int) -> int:
    each = -(-rows // ranks)
    return min(max(rows - holder * each, 0), each)
