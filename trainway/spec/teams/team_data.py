"""The prefixes of the data bucket that a team can write to, and those that it can only read."""

from __future__ import annotations

from dataclasses import dataclass

from trainway.spec.platform import Platform
from trainway.spec.sections.storage import MIRRORED_PREFIXES
from trainway.spec.sections.team import Team

# The folder of the records of runs in the bucket: below `runs`, or below the team's own folder there, which the people
# and the jobs of the team may write to.
RECORDS = ".registry"


@dataclass(frozen=True)
class TeamPrefixes:
    """Prefixes of the data bucket, without a slash at the end: those of a team, and those that it can only read."""

    own: tuple[str, ...]
    shared: tuple[str, ...] = ()


def team_prefixes(platform: Platform) -> dict[str, TeamPrefixes]:
    """Return the prefixes of each team by its name. Empty if all teams share all prefixes."""
    bucket = platform.storage.bucket
    if not bucket.team_prefixes:
        return {}
    return {team.name: TeamPrefixes(own_prefixes(team), bucket.shared) for team in platform.teams}


def has_team_roles_on_nodes(platform: Platform) -> bool:
    """Return whether the nodes of the platform give each Slurm job the role of its team."""
    return platform.storage.bucket.team_prefixes and not platform.orchestrator.is_kubernetes


def own_prefixes(team: Team) -> tuple[str, ...]:
    """Return the prefixes that a team can write to."""
    return (*(f"{prefix}/{team.name}" for prefix in MIRRORED_PREFIXES), *team.data)
