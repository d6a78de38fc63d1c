"""What is recorded about a run where its platform is."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from trainway.spec.derived.team_data import RECORDS

SCHEMA_VERSION = 1
RECORD = ".json"
"""How the key of a record ends. The state of the run is beside it."""


@dataclass(frozen=True)
class RunRecord:
    """A run: who launched what, and how it is found again.

    `launch` is the content of the launch.json that the run has on the machine it was launched from, or None until the
    target has taken the run. `files` has the text of the job file and of the files beside it, by name.
    """

    run: str
    team: str | None
    owner: str
    started: str
    """The time of the first launch, in UTC, as ISO 8601."""
    files: dict[str, str]
    launch: dict[str, Any] | None = None
    attempts: int = 1
    """How often the run was launched: once, and once for each `trainway resume`."""

    @property
    def key(self) -> str:
        """The key of the record in the bucket."""
        return key_of(self.team, self.run)

    def taken(self, launch: dict[str, Any]) -> RunRecord:
        """Return the record of the run after its target has taken it."""
        return replace(self, launch=launch)

    def as_text(self) -> str:
        """Return the record as JSON."""
        return json.dumps({"schema_version": SCHEMA_VERSION, **asdict(self)}, indent=2) + "\n"


def prefix_of(team: str | None) -> str:
    """Return the prefix of the keys of a team's records, or of the records of runs without a team."""
    return f"runs/{team}/{RECORDS}/" if team else f"runs/{RECORDS}/"


def key_of(team: str | None, run: str) -> str:
    """Return the key of a run's record in the bucket."""
    return f"{prefix_of(team)}{run}{RECORD}"


def parse(text: str) -> RunRecord:
    """Return the record in a text. Raises ValueError for a text that is no record of this version's schema."""
    stated = json.loads(text)
    if not isinstance(stated, dict) or stated.pop("schema_version", None) != SCHEMA_VERSION:
        raise ValueError("it is no record of a run that this version of Trainway can read")
    try:
        return RunRecord(**stated)
    except TypeError as error:
        raise ValueError(str(error)) from None
