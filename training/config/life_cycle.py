"""The section `life_cycle` of the job file."""

from pydantic import Field

from training.config.section import Section


class LifeCycle(Section):
    """`life_cycle`: restarts after failures, and how long a finished run stays in Kubernetes."""

    restarts: int = Field(
        10,
        ge=0,
        le=1000,
        description="On Kubernetes. Number of restarts without a new checkpoint, after failures of the job itself. "
        "Each checkpoint allows all of them again. Drained, evicted, and preempted pods do not count.",
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
