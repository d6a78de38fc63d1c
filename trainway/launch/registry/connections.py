"""The platforms that this person uses from this machine, by `trainway connect`."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trainway.launch.platform.hand_off import read_hand_off
from trainway.launch.registry.store import Registry
from trainway.spec.errors import usage_error
from trainway.spec.handoff import HandOff


@dataclass(frozen=True)
class ConnectedPlatform:
    """A deployed platform: what finds its hand-off in the account, without the platform file."""

    name: str
    region: str


def connect(name: str, region: str) -> HandOff:
    """Remember a platform, and return its hand-off. Raises UsageError if it is not deployed, or cannot be asked."""
    hand_off = read_hand_off(ConnectedPlatform(name, region))
    known = {each.name: each.region for each in connections()}
    file = _file()
    file.parent.mkdir(parents=True, exist_ok=True)
    # Another command may read the file now.
    written = file.with_name(f"{file.name}.{os.getpid()}")
    written.write_text(json.dumps({**known, name: region}, indent=2) + "\n", encoding="utf-8")
    written.replace(file)
    return hand_off


def connections() -> Iterator[ConnectedPlatform]:
    """Yield the platforms that this person has connected to. Raises UsageError if the file with them is damaged."""
    file = _file()
    if not file.exists():
        return
    try:
        known = dict(json.loads(file.read_text(encoding="utf-8")))
    except (ValueError, OSError) as error:
        fix = "delete it, and run `trainway connect` again"
        raise usage_error(f"{file} cannot be read", why=str(error), fix=fix) from None
    for name, region in known.items():
        yield ConnectedPlatform(str(name), str(region))


def registry_of(hand_off: HandOff) -> Registry:
    """Return the registry of a deployed platform."""
    return Registry(hand_off.platform, hand_off.region, hand_off.bucket, hand_off.teams, hand_off)


def _file() -> Path:
    """Return the file with the connections."""
    return configuration() / "platforms.json"


def configuration() -> Path:
    """Return the directory of this person's configuration, by the XDG Base Directory Specification."""
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path.home() / ".config")
    return Path(home) / "trainway"
