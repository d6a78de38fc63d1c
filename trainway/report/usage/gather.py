"""Gather what teams used in a month from the registries of platforms."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from trainway.launch.registry.record import RunRecord, prefix_of
from trainway.launch.registry.store import Registry
from trainway.report.usage.document import platform_document, usage_document
from trainway.report.usage.month import Month
from trainway.report.usage.sums import TeamSums
from trainway.spec.errors import UsageError, usage_error
from trainway.spec.facts.catalogue import load_catalogue

# trainway/spec/sections/fields.py
_TEAM = re.compile(r"(?=.{1,30}$)[a-z](-?[a-z0-9])*", re.ASCII)


def usage_of(registries: Iterable[Registry], month: Month, team: str | None, now: datetime) -> dict[str, Any]:
    """Return what a team, or each team, used in a month on some platforms, as `usage_document` describes it.

    A team that was removed from a platform is found by its records. Raises UsageError if no platform has the team, if
    there is no platform, and if the records of the named team cannot be read.
    """
    known = list(registries)
    if not known:
        fix = "go to a directory with platform.yaml, or run `trainway connect PLATFORM`"
        raise usage_error("there is nothing to report", why="no platform is known here", fix=fix)
    if team is not None and not _TEAM.fullmatch(team):
        raise usage_error(f"--team {team}", why="no team can have this name", fix="name a team of the platform")
    platforms = [_platform(each, month, team, now.timestamp()) for each in known]
    if team is not None and not any(each["teams"] for each in platforms):
        teams = sorted({each for registry in known for each in registry.teams})
        where = " and ".join(f"{each.platform} in {each.region}" for each in known)
        fix = f"name one of {', '.join(teams)}" if teams else "leave --team out: the runs there have no team"
        raise usage_error(f"--team {team}", why=f"{where} has no such team, and no records of one", fix=fix)
    return usage_document(month, now.timestamp(), platforms)


def _platform(registry: Registry, month: Month, team: str | None, now: float) -> dict[str, Any]:
    """Return the part of a platform. A team of all teams whose records nobody may list here is named."""
    teams, not_read = list[TeamSums](), list[dict[str, str | None]]()
    for each in (team,) if team is not None else (*registry.teams, None):
        try:
            sums = _team(registry, month, each, now)
        except UsageError as error:
            if team is not None:
                raise
            not_read.append({"team": each, "why": " ".join(str(error).split())})
            continue
        # Of a team that was removed, and of runs without a team, there may be no record.
        if each in registry.teams or sums.has_records:
            teams.append(sums)
    return platform_document(registry.platform, registry.region, teams, not_read)


def _team(registry: Registry, month: Month, team: str | None, now: float) -> TeamSums:
    sums = TeamSums(team, month, now, load_catalogue())

    def has_begun(record: RunRecord) -> bool:
        sums.has_records = True
        return datetime.fromisoformat(record.started) < month.end

    try:
        for run in registry.runs(team, since=month.begin, wanted=has_begun):
            sums.has_records = True
            sums.add(run)
    except PermissionError as error:
        where = f"s3://{registry.bucket}/{prefix_of(team)}"
        fix = "you need s3:ListBucket on it; the administrators of the platform can read the records of all teams"
        raise usage_error(f"the records of runs {where} cannot be listed", why=str(error), fix=fix) from None
    return sums
