"""The directory of a node in which a user keeps checkpoints, in memory or on a local disk.

Other users of the node can write next to it. It is therefore used only if it belongs to this user, and nobody else can
open it. Otherwise, another user could plant weights there, or a link through which this user deletes other files.

The environment variable TRAINWAY_MEMORY names the directory above it in memory. The default is /dev/shm. For a local
disk, TRAINWAY_LOCAL_DISK names the directory above it. The launcher sets it on nodes that have one.
"""

import os
import shutil
import stat
import time
from pathlib import Path

SECONDS_UNTIL_FORGOTTEN = 7 * 24 * 3600
"""Seconds after which files of a run that never resumed on this node are deleted."""


def node_directory(on_disk: bool) -> Path | None:
    """Return the directory of this user, which may not exist. None if the node has no local disk."""
    above = os.environ.get("TRAINWAY_LOCAL_DISK") if on_disk else os.environ.get("TRAINWAY_MEMORY", "/dev/shm")
    return Path(above) / f"trainway-{os.getuid()}" if above else None


def is_own(directory: Path | None) -> bool:
    """Return whether a directory exists, belongs to this user, and is closed to all others."""
    if directory is None:
        return False
    try:
        status = directory.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def create(directory: Path | None, on_disk: bool) -> str | None:
    """Create the directory of this user. Return why it cannot be used, with a remedy, or None."""
    if directory is None:
        return (
            "the nodes have no local disk. Leave checkpoint.local_disk out, or set TRAINWAY_LOCAL_DISK to a directory"
        )
    try:
        if not on_disk:
            # The directory above it is missing on a disk that is not mounted, and would fill the disk of the system.
            directory.parent.mkdir(parents=True, exist_ok=True)
        directory.mkdir(mode=0o700)
    except FileExistsError:
        if not is_own(directory):
            return (
                f"{directory}: this is not a directory of user {os.getuid()} that is closed to all others. Remove it, "
                "or ask an administrator to"
            )
    except OSError as error:
        return f"{directory}: the directory cannot be created: {error.strerror}. Look at {directory.parent}"
    return None


def remove_forgotten(directory: Path, mine: Path) -> None:
    """Delete the files of jobs that have written nothing for a week. `mine` has those of this job."""
    for job in directory.iterdir():
        written = [each.stat().st_mtime for each in (job, *job.glob("*")) if each.exists()]
        if job != mine and written and max(written) < time.time() - SECONDS_UNTIL_FORGOTTEN:
            shutil.rmtree(job, ignore_errors=True)
