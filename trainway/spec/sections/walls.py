"""Default values of the keys that separate the data of teams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trainway.spec.sections.orchestrator import Orchestrator


def with_default_walls(document: Any) -> Any:
    """Return the document of a platform file with default walls between teams, where the file does not set the keys.

    On a platform with several teams, each team has prefixes of the data bucket and, on Kubernetes, a directory of the
    Lustre file system. The file system then has no links to S3, because no link is in the directory of a team.
    A key of the file stays as it is, and what is no platform file stays as it is for the error of its model.
    """
    if not isinstance(document, Mapping) or not _several(document.get("teams")):
        return document
    storage = _section(document, "storage")
    bucket = None if storage is None else _section(storage, "bucket")
    if storage is None or bucket is None:
        return document
    bucket.setdefault("team_prefixes", True)
    storage["bucket"] = bucket
    lustre = _section(storage, "lustre") if storage.get("lustre", {}) is not None else None
    if lustre is not None and bucket["team_prefixes"] is True:
        if document.get("orchestrator", Orchestrator.EKS) != Orchestrator.HYPERPOD_SLURM:
            lustre.setdefault("team_directories", True)
        if lustre.get("team_directories") is True:
            lustre.setdefault("mirror", False)
        storage["lustre"] = lustre
    return {**document, "storage": storage}


def _several(teams: Any) -> bool:
    return isinstance(teams, (list, tuple)) and len(teams) > 1


def _section(above: Mapping[str, Any], name: str) -> dict[str, Any] | None:
    """Return a copy of a section. An absent section is empty, and a section that is no mapping is None."""
    section = above.get(name, {})
    return dict(section) if isinstance(section, Mapping) else None
