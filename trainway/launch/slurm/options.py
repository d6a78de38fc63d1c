"""Options of `trainway launch --target slurm`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from trainway.launch.target_options import Flag


@dataclass(frozen=True)
class SlurmOptions:
    """Options of one batch job.

    `borrow`: use idle nodes of other teams. The job is preempted when their owner needs them. `time_limit_minutes`:
    save a checkpoint and end the job after this time; None is the partition's limit. `environment`: path of a virtual
    environment on the file system that has the package `training`; None is the training image. `user`: login name on
    the cluster, for a machine that has no sbatch of its own; None is `ubuntu`, which
    a cluster with teams refuses.
    """

    borrow: Annotated[
        bool, Flag("Use idle nodes of other teams. The job is preempted when their owner needs them.")
    ] = False
    time_limit_minutes: Annotated[
        int | None,
        Flag(
            "Save a checkpoint and end the job after this time. Default: the limit of Slurm's partition; 1440 on "
            "SageMaker.",
            name="time_limit",
            metavar="MINUTES",
            least=1,
        ),
    ] = None
    environment: Annotated[
        PurePosixPath | None,
        Flag("Run in this virtual environment on the file system. Default: run in the training image.", metavar="PATH"),
    ] = None
    user: Annotated[
        str | None,
        Flag(
            "Your login name on the cluster, for a machine without sbatch. Default: ubuntu. Required on a cluster with "
            "teams."
        ),
    ] = None
