"""Options of `trainway launch --target slurm`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from trainway.launch.program.lost_nodes import LostNodeOptions
from trainway.launch.target.options import Flag


@dataclass(frozen=True)
class SlurmOptions(LostNodeOptions):
    """Options of one batch job.

    `borrow`: use idle nodes of other teams. The job is preempted when their owner needs them. `time_limit_minutes`:
    save a checkpoint and end the job after this time; None is the partition's limit. `environment`: path of a virtual
    environment on the file system that has the package `training`; None is the training image. `user`: login name on
    the cluster, for a machine that has no sbatch of its own; None is `ubuntu`, which
    a cluster with teams refuses. `after`: name of a run that has to succeed first. `exclude`: nodes that the job does
    not use, as a list of Slurm such as `ip-10-0-1-5,ip-10-0-2-[7-9]`. `reservation`: reservation of Slurm whose nodes
    the job uses.
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
            "teams.",
            of_person=True,
        ),
    ] = None
    after: Annotated[
        str | None,
        Flag(
            "Start after this run has succeeded. Cancel the job if the run fails. Default: start at once.",
            metavar="RUN",
        ),
    ] = None
    exclude: Annotated[
        str | None,
        Flag(
            "Use none of these nodes, for example ip-10-0-1-5,ip-10-0-1-7. `trainway status` names the nodes of a run. "
            "Default: use any node of the group.",
            metavar="NODES",
        ),
    ] = None
    reservation: Annotated[
        str | None,
        Flag("Use the nodes of this reservation of Slurm. Default: no reservation.", metavar="NAME"),
    ] = None
