"""Kubernetes groups of people. Access entries assign principals to them, and RBAC grants them rights."""

from __future__ import annotations

VIEWERS = "trainway:viewers"


def members_group(team: str) -> str:
    """Return the group of a team's members."""
    return f"trainway:{team}"
