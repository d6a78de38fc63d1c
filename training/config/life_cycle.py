"""`life_cycle` of the job file."""

from pydantic import Field

from training.config.section import Section


class LifeCycle(Section):
    """How often a run that fails starts again, and how long its object stays after the end."""

    restarts: int = Field(
        10,
        ge=0,
        le=1000,
        description="How often the run starts again from its checkpoint after a failure of its own, on Kubernetes. "
        "Drained, evicted, and preempted pods do not count.",
    )
    process_restarts: int = Field(
        3,
        ge=0,
        le=1000,
        description="How often torchrun starts a node's processes again in place before the node fails.",
    )
    keep_hours: int | None = Field(
        None,
        ge=1,
        le=8760,
        description="Hours that the object of a run stays in Kubernetes after its end. Default: 168. A TrainJob stays "
        "until the run is launched again.",
    )
