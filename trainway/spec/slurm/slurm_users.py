"""The users of a Slurm cluster: those of the platform file, in a document for the nodes, and those of a directory."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from trainway.spec.platform import Platform
from trainway.spec.sections.slurm_user import SlurmUser
from trainway.spec.sections.storage import HOME_PATH, MOUNT_PATH
from trainway.spec.teams.team_groups import team_groups
from trainway.spec.values import Section

JsonObject = dict[str, Any]
# Name of the document in the delivery's bundle and in the bucket.
USERS_DOCUMENT = "slurm-users"

# Directory on the fast file system that has a directory for each user, for data and virtual environments.
USERS_DIRECTORY = f"{MOUNT_PATH}/users"


def slurm_users(platform: Platform) -> JsonObject:
    """Return groups and users, and the location of users' directories. Empty without users, to remove former ones.

    `homes` is the directory of home directories: on the file system of `storage.home`, and otherwise on Lustre, because
    a job has to find the same home on all of its nodes. `mounts` lists the file systems that must be mounted before a
    directory is created. `owner` marks accounts on a node that come from this platform's document.
    """
    home, slurm = platform.storage.home, platform.slurm_or_default
    of_teams = tuple(team_groups(platform).values()) if slurm.users else ()
    return {
        "version": 1,
        "owner": f"trainway/{platform.name}",
        "homes": HOME_PATH if home else USERS_DIRECTORY,
        "directories": USERS_DIRECTORY,
        "mounts": [HOME_PATH, MOUNT_PATH] if home else [MOUNT_PATH],
        "groups": [group.model_dump(mode="json") for group in (*slurm.groups, *of_teams)],
        "users": [_user(user, platform) for user in slurm.users],
    }


def _user(user: SlurmUser, platform: Platform) -> JsonObject:
    """Return a user with the groups of the teams that the user is in, beside the user's other groups."""
    of_teams = team_groups(platform)
    theirs = (of_teams[team.name].name for team in platform.teams if of_teams and user.name in team.users)
    return user.model_copy(update={"groups": (*user.groups, *theirs)}).model_dump(mode="json")


class DirectoryOnNodes(Section):
    """The facts that a node has about the LDAP directory of users. They contain no password."""

    uri: str
    base: str
    kind: str
    reader: str = Field(description="The account that nodes read the directory with; empty: nobody.")
    secret: str = Field(description="ARN of the secret with that account's password; empty: none.")
    homes: str = Field(description="The path below which the users' home directories are.")


def slurm_directory(platform: Platform) -> DirectoryOnNodes | None:
    """Return the facts of nodes about the LDAP directory in `slurm.directory`. None if there is none."""
    directory = platform.slurm_or_default.directory
    if directory is None:
        return None
    reader = directory.reader
    return DirectoryOnNodes(
        uri=directory.uri,
        base=directory.base,
        kind=directory.kind,
        reader=reader.name if reader else "",
        secret=reader.secret if reader else "",
        homes=HOME_PATH if platform.storage.home else USERS_DIRECTORY,
    )
