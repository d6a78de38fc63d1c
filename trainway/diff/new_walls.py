"""The steps with which a platform whose teams share everything gets walls between its teams."""

from __future__ import annotations

from typing import Any

from trainway.launch.platform.hand_off import read_hand_off
from trainway.spec.errors import UsageError
from trainway.spec.handoff import HandOff
from trainway.spec.platform import Platform
from trainway.spec.sections.storage import MIRRORED_PREFIXES
from trainway.spec.teams.team_data import RECORDS, has_team_roles_on_nodes, own_prefixes, team_prefixes

# Of what belongs to no team, so many prefixes are listed.
MOST_LISTED = 10


def steps_to_new_walls(platform: Platform, s3: Any) -> tuple[str, ...]:
    """Return the steps before and after the deploy that gives a platform its first walls, or an empty tuple.

    `s3` is a client that may list the data bucket. Without the permission, the steps name no prefixes.
    """
    if not team_prefixes(platform):
        return ()
    try:
        deployed = read_hand_off(platform)
    # Nothing is deployed, or this version cannot read the hand-off. The deploy writes it anew.
    except UsageError:
        return ()
    if deployed.team_data:
        return ()
    names = ", ".join(team.name for team in platform.teams)
    return (
        f"this deploy limits each team ({names}) to prefixes of its own in the bucket. To let all teams share all "
        "prefixes, as now, set storage.bucket.team_prefixes to false",
        *_prefixes(platform, deployed, s3),
        "stop running jobs, or let them end: with the deploy, they lose access to prefixes that are not of their team",
        *_nodes(platform),
        *_directories(platform, deployed),
    )


def _prefixes(platform: Platform, deployed: HandOff, s3: Any) -> tuple[str, ...]:
    """Return the step that assigns existing prefixes of the bucket to teams, or an empty tuple without any."""
    of_teams = {*platform.storage.bucket.shared, *(own for team in platform.teams for own in own_prefixes(team))}
    left = [each for each in _listed(deployed.bucket, s3) if not _is_below(each, of_teams)]
    if not left:
        return ()
    shown = ", ".join(left[:MOST_LISTED]) + (f", and {len(left) - MOST_LISTED} more" if len(left) > MOST_LISTED else "")
    return (
        f"add to `data` of a team, or to storage.bucket.shared, what teams continue to use of {shown}. Nothing has to "
        "be copied, and the deploy deletes no object",
    )


def _listed(bucket: str, s3: Any) -> list[str]:
    """Return the two-part prefixes of data and runs in the bucket, for example runs/llama-1124-101500."""
    from botocore.exceptions import BotoCoreError, ClientError

    pages = s3.get_paginator("list_objects_v2")
    try:
        return [
            found["Prefix"].rstrip("/")
            for top in MIRRORED_PREFIXES
            for page in pages.paginate(Bucket=bucket, Prefix=f"{top}/", Delimiter="/")
            for found in page.get("CommonPrefixes", ())
            if found["Prefix"] not in (f"runs/{RECORDS}/", "runs/code/")
        ]
    except (BotoCoreError, ClientError):
        return []


def _is_below(path: str, prefixes: set[str]) -> bool:
    """Return whether a prefix equals, contains, or is below one of several prefixes."""
    return any(f"{path}/".startswith(f"{each}/") or f"{each}/".startswith(f"{path}/") for each in prefixes)


def _nodes(platform: Platform) -> tuple[str, ...]:
    if not has_team_roles_on_nodes(platform):
        return ()
    return ("replace all nodes after the deploy: on a node from before, users still reach the role of the node",)


def _directories(platform: Platform, deployed: HandOff) -> tuple[str, ...]:
    before = deployed.file_system
    if not platform.storage.team_directories or before is None or before.team_directories:
        return ()
    links = " Before it, wait until FSx has exported all files to the bucket." if before.associations else ""
    return (
        f"jobs then mount the directory of their team in place of the whole file system.{links} After it, move the "
        "files of each team into teams/NAMESPACE, as an administrator. To let all teams mount the whole file system, "
        "as now, set storage.lustre.team_directories to false",
    )
