"""The login names of this person on clusters, by the ARN of the cluster.

A session starts with the login name of the person who asks, and never with one from the record of a run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from trainway.launch.registry.connections import configuration
from trainway.launch.runs.names import check_login_name
from trainway.spec.errors import usage_error


def login_on(cluster: str) -> str | None:
    """Return the login name that this person has said for a cluster, or None.

    Raises UsageError if the file with them is damaged.
    """
    name = _known().get(cluster)
    return None if name is None else check_login_name(name)


def remember_login(cluster: str, name: str) -> None:
    """Keep the login name of this person on a cluster."""
    known, file = _known(), _file()
    if known.get(cluster) == name:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    # Another command may read the file now.
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(json.dumps({**known, cluster: name}, indent=2) + "\n", encoding="utf-8")
    written.replace(file)


def _known() -> dict[str, str]:
    file = _file()
    if not file.exists():
        return {}
    try:
        return {str(cluster): str(name) for cluster, name in json.loads(file.read_text(encoding="utf-8")).items()}
    except (ValueError, AttributeError, OSError) as error:
        fix = "delete it, and name your login name with `trainway connect PLATFORM --user NAME` again"
        raise usage_error(f"{file} cannot be read", why=str(error), fix=fix) from None


def _file() -> Path:
    return configuration() / "logins.json"
