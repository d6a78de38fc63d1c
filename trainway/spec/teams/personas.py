"""Personas: the roles of people in a Kubernetes cluster, and the people who have each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainway.spec.platform import Platform
from trainway.spec.teams.groups import VIEWERS, members_group


@dataclass(frozen=True)
class Persona:
    """A role of people: administrator, viewer, or member of the team `team`."""

    name: str
    people: tuple[str, ...]
    groups: tuple[str, ...] = ()
    administers: bool = False
    team: str | None = None

    @property
    def moves_data(self) -> bool:
        """Return whether people with the role can change data. Viewers can only read."""
        return VIEWERS not in self.groups


def personas(platform: Platform) -> Iterator[Persona]:
    """Return the roles that somebody has. Nobody else can access the cluster, not even its creator."""
    kubernetes = platform.kubernetes_or_default
    everybody = (
        Persona("admin", kubernetes.admins, administers=True),
        Persona("viewer", kubernetes.viewers, (VIEWERS,)),
        *(
            Persona(f"team-{team.name}", team.members, (members_group(team.name),), team=team.name)
            for team in platform.teams
        ),
    )
    return (persona for persona in everybody if persona.people)
