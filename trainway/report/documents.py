"""The optional documents beside the metrics: job.yaml, launch.json, evaluations.json, and deployment.json."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from trainway.report.errors import RunUnreadable

# The launcher records no secrets. Because people share reports, values with names of secrets are hidden here as well.
_SECRET_NAME = re.compile(r"SECRET|PASSWORD|TOKEN|CREDENTIAL|ACCESS_KEY|API_KEY", re.IGNORECASE)
HIDDEN = "(hidden)"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class RunPrice(_Model):
    """The list price of a node when the run was launched: US dollars per hour, or None if it was unknown."""

    instance_type: str
    bought: str
    region: str
    usd_per_hour: float | None
    as_of: str | None


class RunNodes(_Model):
    """The nodes of a run on a platform. Records of earlier versions have no price."""

    count: int
    instance_type: str
    price: RunPrice | None = None


class CodeChange(_Model):
    """A resume with other code than before. `files` are those that differ, or None if the code before was gone."""

    at: datetime
    before: str | None
    after: str
    files: tuple[str, ...] | None = None
    more_files: int = 0

    @property
    def sentence(self) -> str:
        """Return what changed, with the first characters of both digests."""
        when = f"{self.at:%Y-%m-%d %H:%M:%S %Z}"
        was = f"that of the archive {self.before[:12]}" if self.before else "that of the image"
        if self.files is None:
            changed = "The files that differ are not known."
        else:
            more = f", and {self.more_files} more" if self.more_files else ""
            changed = f"Files that differ: {', '.join(self.files)}{more}."
        return (
            f"At {when} the run was resumed with the code of the archive {self.after[:12]} instead of {was}. {changed}"
        )


class _LaunchOptions(_Model):
    code_digest: str | None = None
    code_changes: tuple[CodeChange, ...] = ()


class Launch(_Model):
    """A start by the launcher, and its end. Without `ended`, the launcher was still running, or was killed."""

    target: str
    # The record of a run elsewhere has neither.
    command: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    started: datetime
    ended: datetime | None = None
    exit_status: int | None = None
    nodes: RunNodes | None = None
    options: _LaunchOptions = _LaunchOptions()

    @property
    def shown_environment(self) -> dict[str, str]:
        """Return the environment sorted by name, with the values of names that look like secrets hidden."""
        return {
            name: HIDDEN if _SECRET_NAME.search(name) else value for name, value in sorted(self.environment.items())
        }

    @property
    def seconds(self) -> float | None:
        """Return the seconds from launch to exit, or None."""
        return (self.ended - self.started).total_seconds() if self.ended else None


class DeployedResource(_Model):
    """A resource that CloudFormation created. `depth` is what an emulator keeps of it, and None on AWS."""

    stack: str
    logical_id: str
    type: str
    physical_id: str
    status: str
    depth: Literal["service", "record"] | None = None


class DeploymentRecord(_Model):
    """The deployed resources of a platform, and the endpoint."""

    platform: str
    endpoint: str
    emulated: bool
    resources: tuple[DeployedResource, ...]

    @property
    def stacks(self) -> dict[str, list[DeployedResource]]:
        """Return the resources of each stack by type and logical ID, with the stacks in order of first appearance."""
        stacks: defaultdict[str, list[DeployedResource]] = defaultdict(list)
        for resource in self.resources:
            stacks[resource.stack].append(resource)
        return {name: sorted(made, key=lambda each: (each.type, each.logical_id)) for name, made in stacks.items()}

    def types(self, depth: Literal["service", "record"]) -> list[tuple[str, int]]:
        """Return the resource types of this depth with their counts, sorted by name."""
        return sorted(Counter(each.type for each in self.resources if each.depth == depth).items())


class EvaluationRow(_Model):
    """An evaluation of a checkpoint, with the newest values of its metrics."""

    step: int
    run: str
    phase: str
    reason: str = ""
    numbers: dict[str, float] = {}


class _Evaluations(RootModel[tuple[EvaluationRow, ...]]):
    """The evaluations of a run, by step."""


def read_evaluations(run: Path) -> tuple[EvaluationRow, ...]:
    """Return the evaluations of the checkpoints, which `trainway report` writes beside the metrics.

    Raises:
        RunUnreadable: the file is damaged.
    """
    found = _read(run / "evaluations.json", _Evaluations)
    return found.root if found else ()


def read_job(run: Path) -> str | None:
    """Return the text of the job file, or None if the run has none."""
    path = run / "job.yaml"
    return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else None


def read_launch(run: Path) -> Launch | None:
    """Return the launcher's record, or None if the job was started without the launcher.

    Raises:
        RunUnreadable: the file is damaged.
    """
    return _read(run / "launch.json", Launch)


def read_deployment(run: Path) -> DeploymentRecord | None:
    """Return the record of what was deployed for the run, or None.

    Raises:
        RunUnreadable: the file is damaged.
    """
    return _read(run / "deployment.json", DeploymentRecord)


_Document = TypeVar("_Document", bound=BaseModel)


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
