"""The section `replica_check` of the job file."""

from pydantic import Field

from training.config.section import Section


class ReplicaCheck(Section):
    """`replica_check`: how often the weights of replicas are compared, if at all."""

    every: int | None = Field(
        None,
        ge=1,
        description="Number of steps after which the weights of replicas are compared. They are also compared before "
        "each checkpoint. Requires parallel.dp_replicate. Default: no comparison.",
        examples=[100],
    )
