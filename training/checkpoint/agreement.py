"""Raise an error of one rank on all ranks, so that no rank waits for one that has given up."""

from collections.abc import Callable
from typing import TypeVar, cast

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from training.errors import UserError

Found = TypeVar("Found")


class Unreadable(Exception):
    """A checkpoint is damaged. The message says which file, what was found, and what was expected."""


def agree(
    problem: str | None, group: dist.ProcessGroup | None = None, error: type[UserError | Unreadable] = UserError
) -> None:
    """Raise an error on every rank of the group if any rank has a problem. Every rank of the group calls this.

    Raises:
        UserError: a rank has a problem. The message is that of the first rank that has one. `error` names another type
            to raise.
    """
    agree_on_error(None if problem is None else error(problem), group)


def agree_on_error(error: UserError | Unreadable | None, group: dist.ProcessGroup | None = None) -> None:
    """Raise on every rank of the group the error of the first rank that has one. Every rank of the group calls this."""
    errors: list[UserError | Unreadable | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(errors, error, group=group)
    for each in errors:
        if each is not None:
            raise each


def from_rank_0(find: Callable[[], Found]) -> Found:
    """Return on every rank what rank 0 finds. Every rank calls this.

    Raises:
        UserError: `find` raised it on rank 0. Raised on every rank.
    """
    found: list[Found | UserError | None] = [None]
    if dist.get_rank() == 0:
        try:
            found = [find()]
        except UserError as error:
            found = [error]
    dist.broadcast_object_list(found, src=0)
    if isinstance(found[0], UserError):
        raise found[0]
    return cast("Found", found[0])


def first_reason(error: CheckpointException) -> str:
    """Return the problem of the first rank that failed."""
    rank, (reason, _) = min(error.failures.items())
    return f"{str(reason) or type(reason).__name__} (on rank {rank})"
