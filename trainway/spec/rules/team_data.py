"""Rules of the prefixes that teams have in the data bucket."""

from __future__ import annotations

from collections.abc import Iterator

from trainway.spec.derived.team_data import own_prefixes
from trainway.spec.facts.catalogue import Catalogue
from trainway.spec.platform import Platform
from trainway.spec.problems import KeyPath
from trainway.spec.rules.rule import Breach, rule


@rule
def team_prefixes_are_for_teams(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """Prefixes of teams need teams."""
    bucket, key = platform.storage.bucket, ("storage", "bucket", "team_prefixes")
    if bucket.team_prefixes and not platform.teams:
        yield key, "the file names no teams", "name teams, or remove it"
    if bucket.team_prefixes:
        return
    reason, remedy = "all teams share all prefixes", "set storage.bucket.team_prefixes to true, or remove it"
    if bucket.shared:
        yield ("storage", "bucket", "shared"), reason, remedy
    for index, team in enumerate(platform.teams):
        if team.data:
            yield ("teams", index, "data"), reason, remedy


@rule
def a_prefix_belongs_to_one_team(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No prefix of a team contains a prefix of another team."""
    for index, team in enumerate(platform.teams):
        for position, prefix in enumerate(team.data):
            key: KeyPath = ("teams", index, "data", position)
            for other in platform.teams:
                both = next((each for each in own_prefixes(other) if _overlap(prefix, each)), None)
                if other.name != team.name and both:
                    reason = f"{both} belongs to the team {other.name}"
                    yield key, reason, "remove it, or share a prefix with all teams in storage.bucket.shared"
                    break


def _overlap(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
