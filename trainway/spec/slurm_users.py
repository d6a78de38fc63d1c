"""The users of a Slurm cluster: those of the file, as a document that nodes are made equal to, and of a directory."""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.storage import HOME_PATH, MOUNT_PATH

Document = dict[str, Any]

# Everybody's own directory on the fast file system, for data and virtual environments.
USERS_DIRECTORY = f"{MOUNT_PATH}/users"


def slurm_users(platform: Platform) -> Document:
    """Groups and users, and where users' directories are; nobody where the file names nobody, so that who left is gone.

    `homes` is where home directories are made: on the file system of `storage.home`, and without one on Lustre, because
    a job has to find the same home on all of its nodes. `mounts` is what has to be mounted before a directory is made.
    `owner` marks the accounts on a node that were made from a document of this platform's.
    """
    home, slurm = platform.storage.home, platform.slurm_or_default
    return {
        "version": 1,
        "owner": f"trainway/{platform.name}",
        "homes": HOME_PATH if home else USERS_DIRECTORY,
        "directories": USERS_DIRECTORY,
        "mounts": [HOME_PATH, MOUNT_PATH] if home else [MOUNT_PATH],
        "groups": [group.model_dump(mode="json") for group in slurm.groups],
        "users": [user.model_dump(mode="json") for user in slurm.users],
    }


def slurm_directory(platform: Platform) -> dict[str, str]:
    """What a node is told of the directory, one value a key; none of them without one. No password is among them."""
    directory = platform.slurm_or_default.directory
    if directory is None:
        return {}
    reader = directory.reader
    return {
        "uri": directory.uri,
        "base": directory.base,
        "kind": directory.kind,
        "reader": reader.name if reader else "",
        "secret": reader.secret if reader else "",
        "homes": HOME_PATH if platform.storage.home else USERS_DIRECTORY,
    }
