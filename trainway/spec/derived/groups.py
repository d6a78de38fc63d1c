"""The Kubernetes groups of people: access entries put principals into them, RBAC says what they may do."""

from __future__ import annotations

VIEWERS = "trainway:viewers"


def members_group(team: str) -> str:
    """The group of a team's members."""
    return f"trainway:{team}"
