"""Who owns a workspace: the person whose credentials the cluster accepts, whatever the login name on this machine."""

from __future__ import annotations

import json
from typing import Any

from trainway.extensions.workspace.definition import check_orchestrator
from trainway.launch.kubernetes.context import find_context
from trainway.launch.kubernetes.kubectl import kubectl
from trainway.launch.registry.owner import NAMES_NOBODY
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


def owner_of_credentials(hand_off: HandOff) -> str:
    """Return the name of the IAM user, or of the role session, as which the cluster knows who runs this command.

    A session of IAM Identity Center has the name of its user. Raises UsageError if the cluster cannot be asked, or if
    the session's name is one that a tool makes and that does not name a person.
    """
    check_orchestrator(hand_off)
    what = "the owner of the workspace is not known"
    asked = ("--context", find_context(hand_off), "auth", "whoami", "--output=json")
    name = _name(json.loads(kubectl(*asked, what=what))["status"]["userInfo"])
    if NAMES_NOBODY.fullmatch(name):
        why = f"your credentials have the session name {name}, which a tool made and which does not name a person"
        fix = "name the owner with --owner, or set `role_session_name` in the profile of your AWS configuration"
        raise usage_error(what, why=why, fix=fix)
    return name


def _name(user: dict[str, Any]) -> str:
    """Return the last part of a user's name, which is that of an IAM user or of a role's session.

    EKS has the session as an attribute of its own, and at the end of the user name unless the access entry has another.
    https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html (read 2026-11-23)
    """
    sessions: list[str] = user.get("extra", {}).get("sessionName", [])
    username: str = user["username"]
    return next(filter(None, sessions), username.rpartition("/")[2])
