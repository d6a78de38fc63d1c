"""The teams of a Slurm cluster as accounts, QOS, and settings, in one document that the controller applies.

A team is an account with a share of idle nodes, and a QOS of its own that allows its guaranteed number of nodes. A job
in that QOS preempts jobs in the QOS `borrowed`, which every team with `borrow` can use.
https://slurm.schedmd.com/accounting.html, https://slurm.schedmd.com/qos.html,
https://slurm.schedmd.com/resource_limits.html, https://slurm.schedmd.com/preempt.html (read 2026-11-21)
"""

from __future__ import annotations

from typing import Any

from trainway.spec.platform import Platform
from trainway.spec.sections.slurm_user import SlurmGroup
from trainway.spec.sections.team import Team
from trainway.spec.teams.team_data import has_team_roles_on_nodes, own_prefixes
from trainway.spec.teams.team_groups import team_groups

JsonObject = dict[str, Any]
# Name of the document in the delivery's bundle and in the bucket.
ACCOUNTS_DOCUMENT = "slurm-accounts"

# QOS of jobs on nodes that other teams leave idle.
BORROWED = "borrowed"

# A preempted job has so many seconds between SIGTERM and SIGKILL.
KILL_WAIT = 120
# Settings of slurm.conf if there are teams: https://slurm.schedmd.com/slurm.conf.html (read 2026-11-21).
SETTINGS = {
    # Jobs need an account, and cannot exceed the limits of account and QOS or use another team's QOS.
    "AccountingStorageEnforce": "associations,limits,qos",
    # A preempted job is requeued, and resumes from its checkpoint, for which it has two minutes between SIGTERM and
    # SIGKILL. The GraceTime of a QOS is not used, because Slurm treats a job that saves and ends in it as completed.
    "PreemptType": "preempt/qos",
    "PreemptMode": "REQUEUE",
    "KillWait": str(KILL_WAIT),
    # Guaranteed jobs go first, then the team below its share, then the longest wait. Each weight outweighs the next,
    # because a factor is between 0 and 1 (https://slurm.schedmd.com/priority_multifactor.html).
    "PriorityType": "priority/multifactor",
    "PriorityWeightQOS": "1000000",
    "PriorityWeightFairshare": "10000",
    "PriorityWeightAge": "100",
}
# Settings of slurm.conf if each team has a role of its own. The program tells a task where its credentials are. Slurm
# accepts only an absolute path: https://slurm.schedmd.com/slurm.conf.html#OPT_TaskProlog (read 2026-11-26).
ROLE_SETTINGS = {"TaskProlog": "/opt/trainway/team-roles/task_prolog.sh"}


def slurm_accounts(platform: Platform) -> JsonObject:
    """Return accounts, QOS, and settings of slurm.conf. Without teams they are empty, to remove earlier ones.

    `nodes` is the number of nodes that all jobs of a QOS can use at a time. None means no limit. `owner` marks entries
    of Slurm's database that come from this platform's document, so that no others are changed. With
    `storage.bucket.team_prefixes`, an account has the `role` of the team, its `group` on the nodes, and the
    `directories` of its prefixes, which the group owns.
    """
    teams, has_roles, groups = platform.teams, has_team_roles_on_nodes(platform), team_groups(platform)
    return {
        "version": 1,
        "owner": f"trainway/{platform.name}",
        "settings": SETTINGS | (ROLE_SETTINGS if has_roles else {}) if teams else {},
        "qos": [_borrowed(), *(_guaranteed(team) for team in teams if has_own_qos(team))] if teams else [],
        "accounts": [_account(team) | (_role(team, groups[team.name]) if has_roles else {}) for team in teams],
    }


def has_own_qos(team: Team) -> bool:
    """Return whether a team has a QOS of its own.

    A team without guaranteed nodes and without `borrow` has a QOS that allows no nodes.
    """
    return any(team.guarantee.values()) or not team.borrow


def _borrowed() -> JsonObject:
    return {"name": BORROWED, "priority": 0, "preempts": [], "nodes": None}


def _guaranteed(team: Team) -> JsonObject:
    return {"name": team.name, "priority": 1, "preempts": [BORROWED], "nodes": sum(team.guarantee.values())}


def role_variable(team: str) -> str:
    """Return the environment variable of the delivery that has the ARN of the team's role."""
    return f"TRAINWAY_TEAM_ROLE_{team.upper().replace('-', '_')}"


def _role(team: Team, group: SlurmGroup) -> JsonObject:
    return {
        "role": f"${{{role_variable(team.name)}}}",
        "group": group.model_dump(mode="json"),
        "directories": list(own_prefixes(team)),
    }


def _account(team: Team) -> JsonObject:
    """Return a team's account. A job without a QOS uses the first of the list."""
    return {
        "name": team.name,
        "fair_share": team.fair_share,
        "qos": [*([team.name] if has_own_qos(team) else []), *([BORROWED] if team.borrow else [])],
        "users": list(team.users),
    }
