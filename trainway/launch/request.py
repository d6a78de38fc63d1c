"""A launch on a platform, before it is rendered for a target: everything that a target needs to know."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath

from training.config import Job
from trainway.launch.allocation import Allocation
from trainway.launch.environment import NCCL_EVIDENCE, cluster_roots, job_environment, platform_environment
from trainway.launch.training_command import training_command
from trainway.spec.handoff import HandOff

# A JobSet's pods are called <run>-<job>-<index>-<pod>-<suffix> within the 63 characters of a DNS label (RFC 1123).
_LONGEST_NAME = 30


@dataclass(frozen=True)
class Request:
    """A job, whose file says `job_text`, on the nodes of an allocation. `image` is the training image by its digest."""

    job: Job
    job_text: str
    run: str
    hand_off: HandOff
    image: str
    allocation: Allocation
    until_step: int | None = None

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


def run_name(job: Job, now: datetime | None = None) -> str:
    """A name for a new run of a job: at most 42 characters of a DNS label, unlike those of other times."""
    return f"{job.name[:_LONGEST_NAME].rstrip('-')}-{now or datetime.now(UTC):%m%d-%H%M%S}"
