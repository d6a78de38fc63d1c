"""The platform file of a launch: a local file, or the file of a connected platform's last deploy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from trainway.launch.platform.hand_off import DeployedPlatform, read_deployed_file
from trainway.launch.registry.connections import configuration, connections
from trainway.launch.registry.find import PLATFORM_FILE
from trainway.spec.errors import usage_error

_CONNECT: Final = "`trainway connect PLATFORM --region REGION` lets you use a platform that is deployed"


def platform_file_named(named: Path) -> Path:
    """Return the platform file for a path, or for the name of a connected platform.

    Without platform.yaml in the current directory, that of the only connected platform is meant, and standard error
    says so. Raises UsageError if neither a file nor a connected platform can be meant, or the account does not have the
    platform file of the last deploy.
    """
    if named.exists():
        return named
    known = {each.name: each for each in connections()}
    if str(named) in known:
        return kept_platform_file(known[str(named)])
    if named == PLATFORM_FILE and len(known) == 1:
        (only,) = known.values()
        print(f"platform: {only.name} in {only.region}, by `trainway connect`", file=sys.stderr)
        return kept_platform_file(only)
    listed = ", ".join(known)
    if named == PLATFORM_FILE and known:
        why = f"there is no {named} here, and you have connected to {listed}"
        raise usage_error("no platform is chosen", why=why, fix="name one with --platform, or use --wherever")
    why = f"there is no such file{f', and you have connected to {listed}' if listed else ''}"
    raise usage_error(f"the platform {named} is not known", why=why, fix=f"name a platform file. {_CONNECT}")


def kept_platform_file(platform: DeployedPlatform) -> Path:
    """Write the platform file of the last deploy to this person's configuration, and return its path.

    Raises UsageError if the account does not have it.
    """
    file = _kept_files() / platform.region / f"{platform.name}.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    # JSON is YAML, too.
    file.write_text(json.dumps(read_deployed_file(platform), indent=2) + "\n", encoding="utf-8")
    return file


def _kept_files() -> Path:
    return configuration() / "platforms"
