"""The section `checkpoint` of the job file."""

from pydantic import Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from training.config.location import LOCATION_FORMS, Location
from training.config.section import Section


class Checkpoint(Section):
    """The section `checkpoint` of a job file: when and where the state of the run is saved."""

    every: int = Field(500, ge=1, description="Steps between checkpoints. The last step always saves one.")
    keep: int = Field(3, ge=1, description="Number of newest checkpoints to keep. Older ones are deleted.")
    keep_every: int | None = Field(
        None,
        ge=1,
        description="Never delete checkpoints at multiples of this number of steps. It must be a multiple of "
        "`every`. Default: none.",
    )
    async_: bool = Field(
        True,
        alias="async",
        description="Continue training while a checkpoint is written, from a copy in host memory.",
    )
    memory_every: int | None = Field(
        None,
        ge=1,
        description="Steps between checkpoints in the memory of the nodes, each with a copy on another node. It must "
        "be less than `every`. Default: none.",
    )
    failures: int = Field(
        3,
        ge=1,
        description="Number of consecutive failed saves after which the run ends. After fewer, it prints a warning and "
        "saves again at the next interval.",
    )
    failure_minutes: float | None = Field(
        None,
        gt=0,
        description="Age in minutes of the newest complete checkpoint after which one failed save ends the run. "
        "Default: no limit.",
        examples=[90],
    )
    location: Location | None = Field(
        None, description=f"{LOCATION_FORMS}. Default: s3:/checkpoints/<name>.", examples=["fsx:/checkpoints/llama"]
    )
    start_from: Location | None = Field(
        None,
        description="Checkpoints of another run, or one of them. A run without a checkpoint of its own starts from "
        "these weights.",
        examples=["s3:/checkpoints/llama/step-00001000"],
    )

    @field_validator("keep_every")
    @classmethod
    def _what_is_kept_is_made(cls, keep_every: int | None, info: ValidationInfo) -> int | None:
        every = info.data.get("every")
        if every is not None and keep_every is not None and keep_every % every:
            raise PydanticCustomError(
                "keep_every",
                "checkpoint.every is {every}, so that most multiples of {keep_every} have no checkpoint",
                {
                    "every": every,
                    "keep_every": keep_every,
                    "remedy": f"use a multiple of {every}, such as {-(-keep_every // every) * every}",
                },
            )
        return keep_every

    @field_validator("memory_every")
    @classmethod
    def _memory_is_newer_than_storage(cls, memory_every: int | None, info: ValidationInfo) -> int | None:
        every = info.data.get("every")
        if every is not None and memory_every is not None and memory_every >= every:
            raise PydanticCustomError(
                "memory_every",
                "storage gets a checkpoint every {every} steps already",
                {
                    "every": every,
                    "remedy": f"use fewer than {every}, or leave it out" if every > 1 else "leave it out",
                },
            )
        return memory_every
