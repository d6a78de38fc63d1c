"""The section `life_cycle` of the job file."""

from pydantic import Field

from training.config.section import Section


class LifeCycle(Section):
    """`life_cycle`: restarts after failures, and how long a finished run stays in Kubernetes."""

    restarts: int = Field(
        10,
        ge=0,
        le=1000,
        description="Number of restarts of the run without a new checkpoint. Each checkpoint allows all of them again. "
        "On Kubernetes, failures of the job count, and drained, evicted, and preempted pods do not. On Slurm, each "
        "start counts, for example after a lost node, and there is no limit without this key.",
    )
    process_restarts: int = Field(
        3,
        ge=0,
        le=1000,
        description="Number of restarts of the processes of a node, in place, before the node fails. A new checkpoint "
        "allows all of them again. torchrun counts the restarts of a program of a section `run` without an end.",
    )
    keep_hours: int | None = Field(
        None,
        ge=1,
        le=8760,
        description="Hours that the object of a run stays in Kubernetes after its end. Default: 168. A TrainJob "
        "stays until the run is launched again.",
    )
