"""What teams used in a month, as one document: the page and `--json` show the same figures."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from trainway.report.usage.month import Month
from trainway.report.usage.sums import HOUR, TeamSums

SCHEMA_VERSION = 1
_COUNTS = (
    *("runs", "launched", "never_started", "attempts", "restarts", "resumes", "attempts_without_times"),
    *("runs_without_nodes", "clocks_corrected"),
)


def usage_document(month: Month, now: float, platforms: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the document. `now` is in seconds since the epoch, and `platforms` are those of `platform_document`."""
    until = min(now, month.end.timestamp())
    return {
        "schema_version": SCHEMA_VERSION,
        "month": month.text,
        "time_zone": "UTC",
        "from": month.begin.isoformat(),
        "until": datetime.fromtimestamp(until, UTC).isoformat(timespec="seconds"),
        "platforms": list(platforms),
    }


def platform_document(
    name: str, region: str, teams: Iterable[TeamSums], not_read: Iterable[dict[str, str | None]]
) -> dict[str, Any]:
    """Return the part of a platform. `not_read` has the teams whose records could not be read, and why."""
    return {
        "platform": name,
        "region": region,
        "teams": [_team(each) for each in teams],
        "teams_not_read": list(not_read),
    }


def _team(sums: TeamSums) -> dict[str, Any]:
    """Return the figures of a team. Hours and shares are exact, and the page rounds them."""
    begin, end = sums.month.begin.timestamp(), min(sums.now, sums.month.end.timestamp())
    failures = sorted(sums.failures.values(), key=lambda each: (-each.attempts, each.cause.sentence))
    return {
        "team": sums.team,
        **{name: sums.counts[name] for name in _COUNTS},
        "nodes": {
            "mean": sums.hours["node"] / ((end - begin) / HOUR) if end > begin else 0.0,
            "most": sums.most_nodes(),
        },
        "node_hours": sums.hours["node"],
        "gpu_hours": sums.hours["gpu"],
        "node_hours_without_known_gpus": sums.hours["node_without_known_gpus"],
        "used": sums.used.document(),
        "goodput": sums.goodput.document(),
        "run_hours": {kind: sums.hours[kind] for kind in ("waiting", "restart", "stopped")},
        "failures": [
            {"rule": each.cause.rule, "cause": each.cause.sentence, "attempts": each.attempts, "runs": each.runs}
            for each in failures
        ],
        "cost": _cost(sums),
        "largest": [row for _, _, row in sorted(sums.largest, key=lambda each: (-each[0], each[1]))],
        "left_out": {"runs": sums.counts["left_out"], "named": sums.left_out},
    }


def _cost(sums: TeamSums) -> dict[str, Any]:
    """Return what the node hours cost by the list prices at the launches, and the node hours without a price."""
    lines = list[dict[str, Any]]()
    for (instance_type, bought, region, usd, as_of), hours in sums.by_price.items():
        line = {"instance_type": instance_type, "bought": bought, "region": region, "node_hours": hours}
        lines.append(line | {"usd_per_hour": usd, "as_of": as_of, "usd": None if usd is None else hours * usd})
    lines.sort(key=lambda each: (-(each["usd"] or 0.0), each["instance_type"], each["bought"] or ""))
    return {
        "currency": "USD",
        "usd": sum(each["usd"] for each in lines if each["usd"] is not None),
        "node_hours_without_price": sum(each["node_hours"] for each in lines if each["usd"] is None),
        "lines": lines,
    }
