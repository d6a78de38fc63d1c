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


# On EKS, a team has five resources in the cluster's stack, and the largest number of node groups has 280. A stack has
# at most 500 resources and 1 MB, and the parameter with the hand-off 8 KB.
# https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/cloudformation-limits.html
# https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
# (read 2026-11-29)
MOST_TEAMS_WITH_PREFIXES = 40


@rule
def the_roles_of_teams_fit_into_a_stack(platform: Platform, _catalogue: Catalogue) -> Iterator[Breach]:
    """No more than 40 teams have prefixes of their own, because a stack with the roles of more teams is too large."""
    count = len(platform.teams)
    if platform.storage.bucket.team_prefixes and count > MOST_TEAMS_WITH_PREFIXES:
        reason = (
            f"each of the {count} teams has a prefix and roles of its own, and the roles of {MOST_TEAMS_WITH_PREFIXES} "
            "teams fit into a stack"
        )
        remedy = (
            "deploy another platform for the other teams, or let all teams share: storage.bucket.team_prefixes: false"
        )
        yield ("teams", MOST_TEAMS_WITH_PREFIXES), reason, remedy


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
