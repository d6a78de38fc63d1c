"""Personas: the parts that people have in a Kubernetes cluster, and who has each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainway.spec.derived.groups import VIEWERS, members_group
from trainway.spec.platform import Platform


@dataclass(frozen=True)
class Persona:
    """A part that people have: administrator, viewer, or member of the team `team`."""

    name: str
    people: tuple[str, ...]
    groups: tuple[str, ...] = ()
    administers: bool = False
    team: str | None = None

    @property
    def moves_data(self) -> bool:
        """Whether people with the role change data. Viewers only read."""
        return VIEWERS not in self.groups


def personas(platform: Platform) -> Iterator[Persona]:
    """Return the parts that somebody has. There is no other way into the cluster, not even for who creates it."""
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
