"""The section `checkpoint` of the job file."""

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidationInfo, ValidatorFunctionWrapHandler, field_validator
from pydantic_core import PydanticCustomError

from training.config.checkpoint_interval import INTERRUPTIONS_PER_1000_NODE_DAYS
from training.config.location import LOCATION_FORMS, Location
from training.config.section import Section


class Checkpoint(Section):
    """The section `checkpoint` of a job file: when and where the state of the run is saved."""

    every: Annotated[int, Field(ge=1)] | Literal["auto"] = Field(
        500,
        description="Steps between checkpoints. The last step always saves one. With `auto`, the job measures the cost "
        "of a save, and chooses the interval that loses the least time.",
        examples=["auto"],
    )
    interruptions_per_1000_node_days: float = Field(
        INTERRUPTIONS_PER_1000_NODE_DAYS,
        gt=0,
        description="Number of unexpected interruptions of a run on 1,000 nodes in a day. `every: auto` chooses the "
        "interval from this rate. Default: the rate of the training of Llama 3 405B.",
        examples=[6.5],
    )
    keep: int = Field(3, ge=1, description="Number of newest checkpoints to keep. Older ones are deleted.")
    keep_every: int | None = Field(
        None,
        ge=1,
        description="Never delete checkpoints at multiples of this number of steps. It must be a multiple of "
        "`every`. With `every: auto`, it can be any number, and the job also saves these steps. Default: none.",
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
    local_disk: bool = Field(
        False,
        description="Keep the checkpoints of `memory_every` on the local NVMe disks of the nodes instead of in memory. "
        "They outlive a container and a reboot of the node. Without such a disk, the job prints a warning and keeps "
        "none.",
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
        None,
        description=f"{LOCATION_FORMS}. Default: s3:/checkpoints/<name>. On a platform whose teams have prefixes, a "
        "launch sets it to s3:/checkpoints/<team>/<name>.",
        examples=["fsx:/checkpoints/llama"],
    )
    start_from: Location | None = Field(
        None,
        description="Checkpoints of another run, or one of them. A run without a checkpoint of its own starts from "
        "these weights.",
        examples=["s3:/checkpoints/llama/step-00001000"],
    )

    @field_validator("every", mode="wrap")
    @classmethod
    def _steps_or_auto(cls, every: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        # Report one problem. Pydantic reports a problem for each alternative.
        try:
            return handler(every)
        except ValidationError as error:
            raise PydanticCustomError(
                "every",
                "it is neither auto nor a whole number of 1 or more",
                {"remedy": "use auto, or a number such as 500"},
            ) from error

    @field_validator("keep_every")
    @classmethod
    def _what_is_kept_is_made(cls, keep_every: int | None, info: ValidationInfo) -> int | None:
        every = info.data.get("every")
        if isinstance(every, int) and keep_every is not None and keep_every % every:
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
        if isinstance(every, int) and memory_every is not None and memory_every >= every:
            raise PydanticCustomError(
                "memory_every",
                "storage gets a checkpoint every {every} steps already",
                {
                    "every": every,
                    "remedy": f"use fewer than {every}, or leave it out" if every > 1 else "leave it out",
                },
            )
        return memory_every

    @field_validator("local_disk")
    @classmethod
    def _the_disk_gets_checkpoints(cls, local_disk: bool, info: ValidationInfo) -> bool:
        if local_disk and "memory_every" in info.data and info.data["memory_every"] is None:
            raise PydanticCustomError(
                "local_disk",
                "checkpoint.memory_every is missing, which says how often the nodes keep a checkpoint",
                {"remedy": "add memory_every, such as memory_every: 50, or leave it out"},
            )
        return local_disk
