"""What a launch under Slurm may say beside the job file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath


@dataclass(frozen=True)
class SlurmOptions:
    """How one run is submitted.

    `borrow`: on nodes that other teams leave idle, from which it may have to go. `time_limit_minutes`: when it ends in
    any case, with a checkpoint; None is the partition's own limit. `environment`: a virtual environment on the file
    system that has the package `training`, instead of the image. `user`: the login name on the cluster,
    where this machine has no sbatch of its own. `code`: an archive that `trainway sync` uploaded, which comes before
    the image's or the environment's own code.
    """

    borrow: bool = False
    time_limit_minutes: int | None = None
    environment: PurePosixPath | None = None
    user: str | None = None
    code: str | None = None
