"""Say why a checkpoint cannot be written, and what to do about it."""

import errno
import math
import shutil
from pathlib import Path

from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import Metadata, TensorStorageMetadata

from training.checkpoint.agreement import first_reason
from training.errors import StorageDenied, StorageFailed, StorageFull
from training.hosts import location_files

_FULL = (errno.ENOSPC, errno.EDQUOT)
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)


def tensor_bytes(metadata: Metadata) -> int:
    """Return the size of all tensors of a checkpoint."""
    tensors = [each for each in metadata.state_dict_metadata.values() if isinstance(each, TensorStorageMetadata)]
    return sum(math.prod(tensor.size) * tensor.properties.dtype.itemsize for tensor in tensors)


def check_space(destination: str, needed_bytes: int) -> None:
    """Compare the size of a checkpoint with the free space of its file system.

    Raises:
        StorageFull: there is less space.
    """
    if not location_files.is_s3(destination) and _free_bytes(destination) < needed_bytes:
        raise StorageFull(_full(destination, needed_bytes))


def write_failure(destination: str, error: CheckpointException, needed_bytes: int | None = None) -> StorageFailed:
    """Return the error that says what kind of problem ended a save, from the exceptions of all ranks."""
    reasons = [reason for _, (reason, _) in sorted(error.failures.items())]
    for reason in reasons:
        if isinstance(reason, StorageFailed):
            return reason
    numbers = {cause.errno for reason in reasons for cause in causes_of(reason) if isinstance(cause, OSError)}
    problem = f"{destination}: the checkpoint cannot be written: {first_reason(error)}"
    if numbers.intersection(_FULL) or "No space left on device" in problem:
        return StorageFull(_full(destination, needed_bytes))
    if numbers.intersection(_DENIED) or any(word in problem for word in ("Forbidden", "Access Denied", "AccessDenied")):
        return StorageDenied(
            f"{problem}. Let the role or the user of this job write there, or name another checkpoint.location"
        )
    return StorageFailed(problem)


def _full(destination: str, needed_bytes: int | None) -> str:
    needs = "" if needed_bytes is None else f"the checkpoint needs {needed_bytes:,} bytes, and "
    location = destination.rpartition("/")[0]
    return (
        f"{destination}: no space left on {location}: {needs}{_free_bytes(destination):,} bytes are "
        "free. Delete files there, lower checkpoint.keep, or name another checkpoint.location"
    )


def _free_bytes(destination: str) -> int:
    return shutil.disk_usage(_directory(destination)).free


def _directory(destination: str) -> Path:
    """Return the directory of a location that exists: the location itself, or the nearest above it."""
    path = Path(destination).absolute()
    return next(each for each in (path, *path.parents) if each.is_dir())


def causes_of(error: BaseException | None) -> list[BaseException]:
    """Return an exception and those that led to it."""
    found: list[BaseException] = []
    while error is not None and error not in found:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found
