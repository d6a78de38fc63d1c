"""Somebody who may use the platform of a test: a file on Kubernetes that lets nobody in is refused."""

from __future__ import annotations

from typing import Any

ADMIN = "arn:aws:iam::111122223333:role/Admin"


def with_people(file: dict[str, Any]) -> dict[str, Any]:
    """Return the content of a platform file with an administrator, if the file has Kubernetes and names nobody."""
    kubernetes, teams = file.get("kubernetes") or {}, file.get("teams") or []
    named = [*kubernetes.get("admins", []), *kubernetes.get("viewers", [])]
    named += [member for team in teams for member in team.get("members", [])]
    if named or file.get("orchestrator", "eks") == "hyperpod-slurm":
        return file
    return {**file, "kubernetes": {**kubernetes, "admins": [ADMIN]}}
