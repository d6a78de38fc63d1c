"""The teams of a Slurm cluster: accounts, QOS and settings, as one document that its controller is made equal to.

A team is an account with a share of what is idle, and a QOS of its own that allows as many nodes as it is guaranteed. A
job in that QOS takes nodes back from jobs in the QOS `borrowed`, which every team has that may borrow.
https://slurm.schedmd.com/accounting.html, https://slurm.schedmd.com/qos.html,
https://slurm.schedmd.com/resource_limits.html, https://slurm.schedmd.com/preempt.html (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.team import Team

JsonObject = dict[str, Any]
# The document's name in the delivery's bundle and in the bucket.
ACCOUNTS_DOCUMENT = "slurm-accounts"

# The QOS of jobs that run on what others leave idle.
BORROWED = "borrowed"

# What slurm.conf says where there are teams: https://slurm.schedmd.com/slurm.conf.html (read 2026-11-21).
SETTINGS = {
    # Nobody runs anything without an account, past the limits of account and QOS, or in a QOS of another team's.
    "AccountingStorageEnforce": "associations,limits,qos",
    # A job that loses its nodes is queued again, and resumes from its checkpoint, for which it has two minutes between
    # SIGTERM and SIGKILL. Not the GraceTime of a QOS: Slurm takes a job that saves and ends in it for one that is done.
    "PreemptType": "preempt/qos",
    "PreemptMode": "REQUEUE",
    "KillWait": "120",
    # What is guaranteed goes first, then the team that had less than its share, then who has waited longer. Each weight
    # outweighs the next: a factor is between 0 and 1 (https://slurm.schedmd.com/priority_multifactor.html).
    "PriorityType": "priority/multifactor",
    "PriorityWeightQOS": "1000000",
    "PriorityWeightFairshare": "10000",
    "PriorityWeightAge": "100",
}


def slurm_accounts(platform: Platform) -> JsonObject:
    """Accounts, QOS and settings of slurm.conf; none of them without teams, so that nothing of an earlier file stays.

    `nodes` is what jobs of a QOS may have at a time, all together; None is no limit. `owner` marks in Slurm's database
    what was made from a document of this platform's, so that nothing else is ever changed.
    """
    teams = platform.teams
    return {
        "version": 1,
        "owner": f"trainway/{platform.name}",
        "settings": SETTINGS if teams else {},
        "qos": [_borrowed(), *(_guaranteed(team) for team in teams if _has_own_qos(team))] if teams else [],
        "accounts": [_account(team) for team in teams],
    }


def _has_own_qos(team: Team) -> bool:
    """A team that neither has nodes nor may borrow any is in a QOS that allows none."""
    return any(team.guarantee.values()) or not team.borrow


def _borrowed() -> JsonObject:
    return {"name": BORROWED, "priority": 0, "preempts": [], "nodes": None}


def _guaranteed(team: Team) -> JsonObject:
    return {"name": team.name, "priority": 1, "preempts": [BORROWED], "nodes": sum(team.guarantee.values())}


def _account(team: Team) -> JsonObject:
    """A job that names no QOS is in the first of the list."""
    return {
        "name": team.name,
        "fair_share": team.fair_share,
        "qos": [*([team.name] if _has_own_qos(team) else []), *([BORROWED] if team.borrow else [])],
        "users": list(team.users),
    }
