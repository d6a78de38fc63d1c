"""An error of one rank, raised by all: none is left waiting for a rank that has given up."""

import torch.distributed as dist
from torch.distributed.checkpoint.api import CheckpointException

from training.errors import UserError


class Unreadable(Exception):
    """A checkpoint is damaged. The message says which file, what was found and what was expected."""


def agree(
    problem: str | None, group: dist.ProcessGroup | None = None, error: type[UserError | Unreadable] = UserError
) -> None:
    """Called by every rank of the group.

    Raises:
        UserError: a rank has a problem; the message is that of the first which has. Or another `error`.
    """
    problems: list[str | None] = [None] * dist.get_world_size(group)
    dist.all_gather_object(problems, problem, group=group)
    for each in problems:
        if each is not None:
            raise error(each)


def first_reason(error: CheckpointException) -> str:
    """What went wrong on the first rank of those where something did."""
    rank, (reason, _) = min(error.failures.items())
    return f"{str(reason) or type(reason).__name__} (on rank {rank})"
