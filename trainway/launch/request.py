"""A job before it is rendered for a target: everything that a target needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any

from trainway.launch.allocation import Allocation
from trainway.launch.environment import NCCL_EVIDENCE, cluster_roots, job_environment, platform_environment
from trainway.launch.run_directory import RUNS
from trainway.launch.training_command import training_command
from trainway.parts.job import Job
from trainway.spec.handoff import HandOff

# A JobSet's pods are called <run>-<job>-<index>-<pod>-<suffix> within the 63 characters of a DNS label (RFC 1123).
_LONGEST_NAME = 30


@dataclass(frozen=True)
class Request:
    """A job, whose file says `job_text`, on the nodes of an allocation. `image` is the training image by its digest.

    `code` is the location of an archive that `trainway sync` uploaded, which comes before the image's own code.
    """

    job: Job
    job_text: str
    run: str
    hand_off: HandOff
    image: str
    allocation: Allocation
    until_step: int | None = None
    code: str | None = None

    @property
    def directory_here(self) -> Path:
        """The directory on this machine that keeps the run's record."""
        return RUNS / self.run

    @property
    def nodes(self) -> dict[str, Any]:
        """The `count` and the `instance_type` of the run's nodes."""
        return {"count": self.allocation.nodes, "instance_type": self.allocation.group.instance_type}

    @property
    def directory(self) -> PurePosixPath:
        """The run's directory on the file system; the bucket has it below the same path."""
        return PurePosixPath(self.hand_off.file_system.mount_path) / "runs" / self.run

    @property
    def command(self) -> tuple[str, ...]:
        """What every node runs."""
        return training_command(self.until_step)

    def environment(self, job_file: PurePosixPath) -> dict[str, str]:
        """What the job is told on nodes of the platform, which have the file system, with its file at `job_file`."""
        roots = cluster_roots(self.hand_off)
        return {
            **job_environment(job_file, self.directory),
            **platform_environment(self.hand_off, roots),
            **NCCL_EVIDENCE,
        }


@dataclass(frozen=True)
class LocalRequest:
    """A job on this machine, with its run's directory. `hand_off` is None unless the job uses a platform's storage."""

    job: Job
    job_text: str
    directory_here: Path
    hand_off: HandOff | None
    until_step: int | None = None

    @property
    def run(self) -> str:
        """The name of the run: the path of its directory."""
        return str(self.directory_here)

    @property
    def nodes(self) -> None:
        """None, because the run has no nodes of a platform."""
        return None


def run_name(job: Job, now: datetime | None = None) -> str:
    """A name for a new run of a job: at most 42 characters of a DNS label, unlike those of other times."""
    return f"{job.name[:_LONGEST_NAME].rstrip('-')}-{now or datetime.now(UTC):%m%d-%H%M%S}"
