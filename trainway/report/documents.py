"""The documents beside the metrics, each of which may be absent: job.yaml, launch.json, deployment.json."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from trainway.report.errors import RunUnreadable

# The launcher writes no secrets down. A report is passed on, so what is named like one is hidden a second time here.
_SECRET_NAME = re.compile(r"SECRET|PASSWORD|TOKEN|CREDENTIAL|ACCESS_KEY|API_KEY", re.IGNORECASE)
HIDDEN = "(hidden)"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Launch(_Model):
    """What the launcher started, and how it ended. Without `ended`, the launcher was still there, or was killed."""

    target: str
    command: tuple[str, ...]
    environment: dict[str, str]
    started: datetime
    ended: datetime | None = None
    exit_status: int | None = None

    @property
    def shown_environment(self) -> dict[str, str]:
        """The environment in order of name, with the values of what is named like a secret hidden."""
        return {
            name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in sorted(self.environment.items())
        }

    @property
    def seconds(self) -> float | None:
        """Seconds from launch to exit."""
        return (self.ended - self.started).total_seconds() if self.ended else None


class DeployedResource(_Model):
    """A resource that CloudFormation made. `depth` says what an emulator keeps of it; AWS itself gives none."""

    stack: str
    logical_id: str
    type: str
    physical_id: str
    status: str
    depth: Literal["service", "record"] | None = None


class DeploymentRecord(_Model):
    """What was deployed, and where."""

    platform: str
    endpoint: str
    emulated: bool
    resources: tuple[DeployedResource, ...]

    @property
    def stacks(self) -> dict[str, list[DeployedResource]]:
        """The resources of each stack, by type and logical id; the stacks as they first appear."""
        stacks: defaultdict[str, list[DeployedResource]] = defaultdict(list)
        for resource in self.resources:
            stacks[resource.stack].append(resource)
        return {name: sorted(made, key=lambda each: (each.type, each.logical_id)) for name, made in stacks.items()}

    def types(self, depth: Literal["service", "record"]) -> list[tuple[str, int]]:
        """Resource types of this depth with their counts, in order of name."""
        return sorted(Counter(each.type for each in self.resources if each.depth == depth).items())


def read_job(run: Path) -> str | None:
    """The text of the job file, None if the run has none."""
    path = run / "job.yaml"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def read_launch(run: Path) -> Launch | None:
    """What the launcher wrote, None if the job was started without it.

    Raises:
        RunUnreadable: the file is damaged.
    """
    return _read(run / "launch.json", Launch)


def read_deployment(run: Path) -> DeploymentRecord | None:
    """What was deployed for the run, None if nothing was.

    Raises:
        RunUnreadable: the file is damaged.
    """
    return _read(run / "deployment.json", DeploymentRecord)


_Document = TypeVar("_Document", bound=_Model)


def _read(path: Path, model: type[_Document]) -> _Document | None:
    if not path.is_file():
        return None
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "(file)"
        raise RunUnreadable(
            path,
            "this file is damaged",
            f"{key}: {first['msg']}",
            "repair the file, or delete it to have a report without that part",
        ) from error
