"""The directories of the Lustre file system that belong to teams."""

from __future__ import annotations


def team_directory(namespace: str) -> str:
    """Return the path of the directory of a team's namespace, relative to the root of the file system."""
    return f"teams/{namespace}"
