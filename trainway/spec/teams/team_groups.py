"""The POSIX groups of teams on the nodes of a Slurm cluster, which own the directories of teams on the file system."""

from __future__ import annotations

from zlib import crc32

from trainway.spec.platform import Platform
from trainway.spec.sections.slurm_user import SlurmGroup
from trainway.spec.sections.team import Team
from trainway.spec.teams.team_data import has_team_roles_on_nodes

# The upper numbers of people and their groups, which administrators begin to give out below.
FIRST_GID, GIDS = 40_000, 19_000
# Longer names are refused by groupadd(8).
_LONGEST_NAME = 32


def team_groups(platform: Platform) -> dict[str, SlurmGroup]:
    """Return the group of each team by the team's name. Empty if all teams share the file system."""
    if not has_team_roles_on_nodes(platform):
        return {}
    return {team.name: SlurmGroup(name=_name(team), gid=_gid(team)) for team in platform.teams}


def _name(team: Team) -> str:
    return f"team-{team.name}"[:_LONGEST_NAME].rstrip("-")


def _gid(team: Team) -> int:
    """Return the team's number. By default it follows from the name alone, so that the order of teams is free."""
    return team.gid or FIRST_GID + crc32(team.name.encode()) % GIDS
